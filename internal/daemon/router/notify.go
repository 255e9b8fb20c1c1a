// SPDX-License-Identifier: Apache-2.0

package router

import (
	"net"
	"os"
)

// notify tells the service manager that started us about our state, if there is
// one: sd_notify(3) is a datagram to the socket in NOTIFY_SOCKET. A service
// manager that can't be told is its own problem.
func notify(state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	c, err := net.Dial("unixgram", socket)
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte(state))
}
