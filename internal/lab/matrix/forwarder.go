// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"fmt"

	"minne/internal/lab/device"
)

// kernelForwarded returns how many packets the device's kernel has forwarded so
// far; 0 when that tells nothing.
func (n *Network) kernelForwarded(family string) (uint64, error) {
	if n.device == nil || n.device.Forwarder(false) != device.ByFastPath {
		return 0, nil
	}
	return n.device.Node().KernelForwarded(family == IPv6)
}

// leftToKernel is the share of packets that a fast path may leave to the kernel:
// the first ones, and IPv6 neighbour discovery between.
const leftToKernel = 0.01

// checkForwarder refuses the figure of a fast path that has left the packets to the kernel.
func (n *Network) checkForwarder(family string, before uint64, packets float64) error {
	now, err := n.kernelForwarded(family)
	if err != nil {
		return err
	}
	if kernel := float64(now - before); kernel > 100 && kernel > leftToKernel*packets {
		return fmt.Errorf("the fast path left %.0f of about %.0f packets to the kernel: this would be the kernel's figure", kernel, packets)
	}
	return nil
}
