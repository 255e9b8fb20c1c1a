// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Speed, duplex, driver and bus address of a device, through the ethtool ioctl:
// it speaks of the process's namespace and works on every kernel.

// ethtool is a socket to ask with.
type ethtool struct{ fd int }

func newEthtool() (ethtool, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ethtool{}, fmt.Errorf("open ethtool socket: %w", os.NewSyscallError("socket", err))
	}
	return ethtool{fd}, nil
}

func (e ethtool) close() { unix.Close(e.fd) }

// driverWords are what `ethtool -i` prints.
type driverWords struct{ driver, bus string }

// driver returns the driver's words, empty for devices that have none.
func (e ethtool) driver(name string) driverWords {
	found, err := unix.IoctlGetEthtoolDrvinfo(e.fd, name)
	if err != nil {
		return driverWords{}
	}
	return driverWords{driver: unix.ByteSliceToString(found.Driver[:]), bus: unix.ByteSliceToString(found.Bus_info[:])}
}

// linkSettings is struct ethtool_link_settings (include/uapi/linux/ethtool.h) with
// room for the three link mode masks that follow it. Host byte order.
type linkSettings struct {
	cmd            uint32
	speed          uint32 // Mbit/s, all ones when unknown
	duplex         uint8
	port, phy, neg uint8
	mdio, crossing uint8
	crossingCtrl   uint8
	maskWords      int8
	_              [8]uint32
	masks          [3 * 127]uint32
}

// speed returns the link's speed in Mbit/s (0 when unknown) and its duplex ("" when unknown).
func (e ethtool) speed(name string) (mbit uint32, duplex string) {
	request := linkSettings{cmd: unix.ETHTOOL_GLINKSETTINGS}
	// The first call answers the size of the masks, negative; the second fills them.
	if !e.ioctl(name, unsafe.Pointer(&request)) || request.maskWords >= 0 {
		return 0, ""
	}
	request = linkSettings{cmd: unix.ETHTOOL_GLINKSETTINGS, maskWords: -request.maskWords}
	if !e.ioctl(name, unsafe.Pointer(&request)) {
		return 0, ""
	}
	const unknown = 1<<32 - 1
	if request.speed != unknown {
		mbit = request.speed
	}
	switch request.duplex {
	case 0:
		duplex = "half"
	case 1:
		duplex = "full"
	}
	return mbit, duplex
}

// ioctl does SIOCETHTOOL; struct ifreq is the name and a pointer to the request.
func (e ethtool) ioctl(name string, request unsafe.Pointer) bool {
	var ifreq struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [24 - unsafe.Sizeof(uintptr(0))]byte
	}
	copy(ifreq.name[:unix.IFNAMSIZ-1], bytes.TrimRight([]byte(name), "\x00"))
	ifreq.data = request
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifreq)))
	return errno == 0
}
