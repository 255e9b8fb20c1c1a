// SPDX-License-Identifier: Apache-2.0

package config

// Dummy makes an interface without a cable, for addresses of the router that no port's failure takes away.
type Dummy struct{}

func (*Dummy) kind() Kind { return Kind{Name: "dummy", Alone: true} }

func (*Dummy) check(*checker, string, string) {}

func (*Dummy) odd(*checker, string, string) {}
