// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"minne/internal/model/config"
)

// helperPorts are the connections that each helper reads.
var helperPorts = map[config.HelperName][]Helper{
	"ftp":  {{"ftp", protoTCP, 21}},
	"sip":  {{"sip", protoTCP, 5060}, {"sip", protoUDP, 5060}},
	"tftp": {{"tftp", protoUDP, 69}},
}

func (c *compiler) helpers() {
	seen := map[config.HelperName]bool{}
	for i, name := range c.cfg.Firewall.Helpers {
		if seen[name] {
			c.report.Refuse(fmt.Sprintf("firewall.helpers[%d]", i), fmt.Sprintf("%s is given twice", name), "each helper once", "")
			continue
		}
		seen[name] = true
		c.p.Helpers = append(c.p.Helpers, helperPorts[name]...)
	}
}
