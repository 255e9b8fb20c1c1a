// SPDX-License-Identifier: Apache-2.0

package sensors

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// Attributes of ETHTOOL_MSG_MODULE_EEPROM_GET (linux/ethtool_netlink.h, Documentation/networking/ethtool-netlink.rst).
const (
	attrHeader  = 1
	attrOffset  = 2
	attrLength  = 3
	attrPage    = 4
	attrDevice  = 6
	attrData    = 7
	headerIndex = 1 // in attrHeader: the link
)

const genlHeader = 4 // bytes: command, version, two reserved

// Modules reads the modules of links.
type Modules struct {
	socket *nlmsg.Socket
	family uint16
}

// OpenModules opens a socket for them. The caller closes it.
func OpenModules() (*Modules, error) {
	family, err := netlink.GenlFamilyGet("ethtool")
	if err != nil {
		return nil, fmt.Errorf("find ethtool's netlink: %w", err)
	}
	s, err := nlmsg.Dial(unix.NETLINK_GENERIC, unix.NETLINK_EXT_ACK, unix.NETLINK_CAP_ACK)
	if err != nil {
		return nil, err
	}
	return &Modules{s, family.ID}, nil
}

// Close ends the asking.
func (m *Modules) Close() { m.socket.Close() }

// Optics reads the module of a link; ok is false where there is none, or the driver can't read it.
func (m *Modules) Optics(ctx context.Context, name string, index int) (o Optics, ok bool, err error) {
	o, err = ReadOptics(func(dev, page, offset byte) ([]byte, error) { return m.read(ctx, index, dev, page, offset) })
	o.Interface = name
	for _, none := range []error{unix.EOPNOTSUPP, unix.ENODEV, unix.EIO, unix.ENXIO, unix.EINVAL, ErrUnknown} { // no cage, an empty one, a module that sleeps
		if errors.Is(err, none) {
			return o, false, nil
		}
	}
	if err != nil {
		return o, false, fmt.Errorf("read the module of %s: %w", name, err)
	}
	return o, true, nil
}

func (m *Modules) read(ctx context.Context, index int, dev, page, offset byte) (data []byte, err error) {
	b := []byte{unix.ETHTOOL_MSG_MODULE_EEPROM_GET, 1, 0, 0}
	b = nlmsg.AppendAttr(b, attrHeader|unix.NLA_F_NESTED, nlmsg.AppendAttr32(nil, headerIndex, uint32(index)))
	b = nlmsg.AppendAttr32(b, attrOffset, uint32(offset))
	b = nlmsg.AppendAttr32(b, attrLength, pageSize)
	b = nlmsg.AppendAttr(b, attrPage, []byte{page})
	b = nlmsg.AppendAttr(b, attrDevice, []byte{dev})
	_, err = m.socket.Ask(ctx, m.family, unix.NLM_F_ACK, b, func(answer nlmsg.Message) error {
		if len(answer.Body) < genlHeader {
			return nil
		}
		for kind, value := range nlmsg.Attributes(answer.Body[genlHeader:]) {
			if kind == attrData {
				data = bytes.Clone(value)
			}
		}
		return nil
	})
	return data, err
}
