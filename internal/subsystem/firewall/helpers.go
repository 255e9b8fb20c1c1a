// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"minne/internal/model/policy"
	"minne/internal/subsystem/nft"
)

// Helpers of conntrack. Kernels have given them to connections by port of
// themselves; since Linux 6.0 they have to be asked for, here when a connection
// begins. The translation of what a protocol says is a module of its own, which
// nothing loads by itself.

// helpers writes the objects, and the chain that gives them to connections behind
// the translation of destinations.
func (t *text) helpers() {
	if len(t.p.Helpers) == 0 {
		return
	}
	lines := []string{"type filter hook prerouting priority filter; policy accept;"}
	for _, h := range t.p.Helpers {
		name, protocol := helperName(h)
		fmt.Fprintf(&t.b, "\tct helper %s {\n\t\ttype %q protocol %s;\n\t}\n", name, h.Name, protocol)
		lines = append(lines, fmt.Sprintf("ct state new %s dport %d ct helper set %q", protocol, h.Port, name))
	}
	t.chain("helpers", lines...)
}

// helperName is the name of a helper's object, and its protocol.
func helperName(h policy.Helper) (name, protocol string) {
	protocol = protocolText(h.Protocol)
	return h.Name + "_" + protocol, protocol
}

// seenModules are those that were there once: nothing unloads them, and to look
// through the symbols of the kernel takes a second on a small machine.
var seenModules sync.Map

// missingHelpers loads the modules of a policy's helpers, and returns those that the kernel does not
// have, and the words for them.
func missingHelpers(ctx context.Context, p *policy.Policy) (missing []policy.Helper, err error) {
	var all []error
	for _, h := range p.Helpers {
		if err := checkHelper(ctx, h); err != nil {
			missing, all = append(missing, h), append(all, err)
		}
	}
	if missing == nil {
		return nil, nil
	}
	return missing, &missingError{errors.Join(all...)}
}

// missingError says which helpers the kernel lacks.
type missingError struct{ error }

// checkHelper makes sure that the kernel has a helper.
func checkHelper(ctx context.Context, h policy.Helper) error {
	name, protocol := helperName(h)
	script := fmt.Sprintf("table inet minne_probe { ct helper %s { type %q protocol %s; }; }", name, h.Name, protocol)
	if _, err := nft.Run(ctx, script, "-c", "-f", "-"); err != nil {
		return lacks(h.Name, "nf_conntrack_"+h.Name)
	}
	module := "nf_nat_" + h.Name
	if _, ok := seenModules.Load(module); ok {
		return nil
	}
	if exec.CommandContext(ctx, "modprobe", "-q", module).Run() != nil && !builtIn(module) {
		return lacks(h.Name, module)
	}
	seenModules.Store(module, true)
	return nil
}

func lacks(helper, module string) error {
	return fmt.Errorf("firewall.helpers: this kernel has no %s (module %s): install the modules of the running kernel, or leave %s out", helper, module, helper)
}

// builtIn reports whether a module without parameters is part of the kernel: its
// symbols are there.
func builtIn(module string) bool {
	file, err := os.Open("/proc/kallsyms")
	if err != nil {
		return false
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.Contains(lines.Text(), " "+module) {
			return true
		}
	}
	return false
}
