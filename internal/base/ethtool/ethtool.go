// SPDX-License-Identifier: Apache-2.0

// Package ethtool asks drivers of network devices, and sets what they let be set, as ethtool(8) does: by the
// ioctl, which works on every kernel and speaks of the thread's network namespace. Structures are those of
// include/uapi/linux/ethtool.h, in host byte order.
package ethtool

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Tool is a socket to ask with.
type Tool struct{ fd int }

// Open makes a Tool of the namespace of the thread.
func Open() (Tool, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Tool{}, fmt.Errorf("open ethtool socket: %w", os.NewSyscallError("socket", err))
	}
	return Tool{fd}, nil
}

// Close ends a Tool.
func (t Tool) Close() { unix.Close(t.fd) }

// Lacks says whether an error means that a driver does not have what was asked for.
func Lacks(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV)
}

// do does SIOCETHTOOL; struct ifreq is the name and a pointer to the request.
func (t Tool) do(name string, request unsafe.Pointer) error {
	var ifreq struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [24 - unsafe.Sizeof(uintptr(0))]byte
	}
	copy(ifreq.name[:unix.IFNAMSIZ-1], name)
	ifreq.data = request
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(t.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifreq))); errno != 0 {
		return errno
	}
	return nil
}

// Driver is what `ethtool -i` prints: the driver's name, and where the device sits, "" for one that is no hardware.
type Driver struct{ Name, Bus string }

// Driver returns the driver of a device, empty for devices that have none.
func (t Tool) Driver(name string) Driver {
	found, err := unix.IoctlGetEthtoolDrvinfo(t.fd, name)
	if err != nil {
		return Driver{}
	}
	return Driver{unix.ByteSliceToString(found.Driver[:]), unix.ByteSliceToString(found.Bus_info[:])}
}

// Offload is something that a device does for the kernel: by a command of its own, or by a bit of the answer
// to ETHTOOL_GFLAGS.
type Offload struct {
	Name     string // in the words of `ethtool -k`
	get, set uint32
	bit      uint32 // of enum ethtool_flags
}

// Offloads are those that can be asked for.
var Offloads = []Offload{
	{"rx-checksumming", unix.ETHTOOL_GRXCSUM, unix.ETHTOOL_SRXCSUM, 1}, TransmitChecksum,
	{"scatter-gather", unix.ETHTOOL_GSG, unix.ETHTOOL_SSG, 1}, {"tcp-segmentation-offload", unix.ETHTOOL_GTSO, unix.ETHTOOL_STSO, 1},
	{"generic-segmentation-offload", unix.ETHTOOL_GGSO, unix.ETHTOOL_SGSO, 1}, Receive,
	LargeReceive, ReceiveVLAN, {"tx-vlan-offload", unix.ETHTOOL_GFLAGS, unix.ETHTOOL_SFLAGS, 1 << 7},
}

// TransmitChecksum is the sum of TCP and UDP of what is sent, Receive the joining of received packets by the kernel (GRO).
var (
	TransmitChecksum = Offload{"tx-checksumming", unix.ETHTOOL_GTXCSUM, unix.ETHTOOL_STXCSUM, 1}
	Receive          = Offload{"generic-receive-offload", unix.ETHTOOL_GGRO, unix.ETHTOOL_SGRO, 1}
)

// Offloads that do not go with XDP: it can't see tags that hardware has taken off, nor packets that it has joined.
var (
	ReceiveVLAN  = Offload{"rx-vlan-offload", unix.ETHTOOL_GFLAGS, unix.ETHTOOL_SFLAGS, 1 << 8}
	LargeReceive = Offload{"large-receive-offload", unix.ETHTOOL_GFLAGS, unix.ETHTOOL_SFLAGS, 1 << 15}
)

// filters are rules of a card, without which many drivers take none.
var filters = Offload{"ntuple-filters", unix.ETHTOOL_GFLAGS, unix.ETHTOOL_SFLAGS, 1 << 27}

// value is struct ethtool_value.
type value struct{ command, data uint32 }

// On asks whether an offload is on.
func (t Tool) On(name string, o Offload) (bool, error) {
	v := value{command: o.get}
	err := t.do(name, unsafe.Pointer(&v))
	return v.data&o.bit != 0, err
}

// Turn switches an offload. To switch one off that a device does not have is no error.
func (t Tool) Turn(name string, o Offload, on bool) error {
	v := value{command: o.get}
	if err := t.do(name, unsafe.Pointer(&v)); err != nil {
		if !on {
			return nil
		}
		return fmt.Errorf("read %s: %w", o.Name, err)
	}
	if v.data&o.bit != 0 == on {
		return nil
	}
	v.command, v.data = o.set, v.data^o.bit
	if err := t.do(name, unsafe.Pointer(&v)); err != nil {
		return fmt.Errorf("turn %s %s: %w", o.Name, map[bool]string{true: "on", false: "off"}[on], err)
	}
	return nil
}
