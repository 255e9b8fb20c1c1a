// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"minne/internal/daemon/router"
)

func newUplinkCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "uplink NAME on|off",
		Short: "Switch an uplink off without losing a packet, or on",
		Long: `Switch an uplink off: from now on packets leave by the others. Its link, its routing sessions and its
routes stay as they are, and what comes in by it is forwarded, so no packet is lost; connections that
are translated (NAT) to its address end. On switches it on again. An uplink that is off stays off
until it is switched on, or the machine boots. minne show uplinks shows all of them.`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if args[1] != "on" && args[1] != "off" {
				return usageError{errors.New("expected on or off behind the uplink's name")}
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			if _, err := router.SwitchUplink.Ask(c.Context(), client, router.UplinkSwitch{Uplink: args[0], On: args[1] == "on"}); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "uplink %s is %s\n", args[0], args[1])
			return err
		},
	}
}
