// SPDX-License-Identifier: Apache-2.0

package testns

import "net"

// WireGuardListens says whether the program wireguard-go takes settings for a device, by its socket, whose name is the
// host's. Only afterwards may wg(8) be asked: between bind and listen it finds a socket that refuses, takes it for one
// that was left, and removes it; then wireguard-go ends.
func WireGuardListens(device string) error {
	c, err := net.Dial("unix", "/var/run/wireguard/"+device+".sock")
	if err != nil {
		return err
	}
	return c.Close()
}
