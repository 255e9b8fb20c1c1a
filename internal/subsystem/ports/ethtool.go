// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The ethtool ioctls (include/uapi/linux/ethtool.h); all of their structures are in host byte order.

// device is a port to ask, through a socket of the namespace that it is in.
type device struct {
	fd   int
	name string
}

func open(name string) (device, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return device{}, fmt.Errorf("open a socket for ethtool: %w", os.NewSyscallError("socket", err))
	}
	return device{fd, name}, nil
}

func (d device) close() { unix.Close(d.fd) }

// ioctl does one SIOCETHTOOL; struct ifreq is the name and a pointer to the request.
func (d device) ioctl(request unsafe.Pointer) error {
	var ifreq struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [24 - unsafe.Sizeof(uintptr(0))]byte
	}
	copy(ifreq.name[:unix.IFNAMSIZ-1], d.name)
	ifreq.data = request
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifreq))); errno != 0 {
		return errno
	}
	return nil
}

// driver returns the driver's name and the device's bus address, empty for devices that have none.
func (d device) driver() (name, bus string) {
	found, err := unix.IoctlGetEthtoolDrvinfo(d.fd, d.name)
	if err != nil {
		return "", ""
	}
	return unix.ByteSliceToString(found.Driver[:]), unix.ByteSliceToString(found.Bus_info[:])
}

// stripsTags reports whether the device takes VLAN tags off the frames that it receives.
func (d device) stripsTags() bool {
	const receive = 1 << 8 // ETH_FLAG_RXVLAN
	flags, err := d.value(unix.ETHTOOL_GFLAGS, 0)
	return err == nil && flags&receive != 0
}

// linkSettings is struct ethtool_link_settings with room for its three masks.
type linkSettings struct {
	cmd       uint32
	speed     uint32 // Mbit/s, all ones when unknown
	_         [7]uint8
	maskWords int8
	_         [8]uint32
	_         [3 * 127]uint32
}

// speed returns the speed of the link in bit/s, 0 when it is unknown.
func (d device) speed() uint64 {
	// The first call answers the size of the masks, negative; the second fills them.
	request := linkSettings{cmd: unix.ETHTOOL_GLINKSETTINGS}
	if d.ioctl(unsafe.Pointer(&request)) != nil || request.maskWords >= 0 {
		return 0
	}
	request = linkSettings{cmd: unix.ETHTOOL_GLINKSETTINGS, maskWords: -request.maskWords}
	if d.ioctl(unsafe.Pointer(&request)) != nil {
		return 0
	}
	return speedOf(request.speed)
}

// speedOf reads a speed as ethtool has it; unknown is 0 or all ones.
func speedOf(mbit uint32) uint64 {
	if mbit == 1<<32-1 || mbit == 1<<16-1 { // SPEED_UNKNOWN, and how old drivers write it
		return 0
	}
	return uint64(mbit) * 1_000_000
}

// channels is struct ethtool_channels.
type channels struct {
	cmd                                     uint32
	maxRx, maxTx, maxOther, maxCombined     uint32
	nowRx, nowTx, nowOther, nowCombinedRxTx uint32
}

// queues returns how many queues the device has in each direction; 0 when it doesn't say.
func (d device) queues() Queues {
	request := channels{cmd: unix.ETHTOOL_GCHANNELS}
	if d.ioctl(unsafe.Pointer(&request)) != nil {
		return Queues{}
	}
	return request.queues()
}

func (c channels) queues() Queues {
	return Queues{
		Receive: int(c.nowRx + c.nowCombinedRxTx), Transmit: int(c.nowTx + c.nowCombinedRxTx),
		MostReceive: int(c.maxRx + c.maxCombined), MostTransmit: int(c.maxTx + c.maxCombined),
	}
}

// pause is struct ethtool_pauseparam: flow control by pause frames (IEEE 802.3x).
type pause struct{ cmd, negotiate, receive, transmit uint32 }

func (d device) pause() (pause, error) {
	p := pause{cmd: unix.ETHTOOL_GPAUSEPARAM}
	err := d.ioctl(unsafe.Pointer(&p))
	return p, err
}

func (d device) setPause(p pause) error {
	p.cmd = unix.ETHTOOL_SPAUSEPARAM
	return d.ioctl(unsafe.Pointer(&p))
}

// value does a command of struct ethtool_value and returns the value as the driver left it.
func (d device) value(command, value uint32) (uint32, error) {
	request := struct{ command, value uint32 }{command, value}
	err := d.ioctl(unsafe.Pointer(&request))
	return request.value, err
}
