// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"minne/internal/base/instance"
)

// The router of a machine that boots the image: its init runs the daemon, and its files are its own, so that texts
// are carried in over the agent's line.

// imageProgram is the minne command of the image.
const imageProgram = "/usr/sbin/minne"

// minneOfImage prepares the image's own router. It has no configuration yet, and its secrets are where
// somebody who set it up by hand would have put them.
func (n *Running) minneOfImage(config, secrets string) (*Minne, error) {
	inst, err := instance.New(instance.Default)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	m := &Minne{Binary: imageProgram, Instance: inst, Root: "/", node: n}
	if m.Config, err = m.Write(ctx, "minne.yaml", config); err != nil || secrets == "" {
		return m, err
	}
	// The partition of the configuration is read-only but while somebody writes.
	given, err := m.Write(ctx, "secrets.yaml", secrets)
	if err != nil {
		return nil, err
	}
	_, err = n.Run(ctx, "sh", "-ec", fmt.Sprintf("mount -o remount,rw /config; mkdir -p %s; umask 077; cat %s >%s; rm %s; sync; mount -o remount,ro /config",
		filepath.Dir(inst.Secrets), given, inst.Secrets, given))
	return m, err
}

// writeInside writes a file in the node's machine.
func (n *Running) writeInside(ctx context.Context, path, text string) (string, error) {
	var out strings.Builder
	p, err := n.machine.Start([]string{"sh", "-c", `cat >"$0"`, path}, strings.NewReader(text), &out, &out)
	if err != nil {
		return "", err
	}
	switch code, err := p.Wait(); {
	case err != nil:
		return "", fmt.Errorf("write %s in %s: %w", path, n.Name, err)
	case code != 0:
		return "", fmt.Errorf("write %s in %s: exit status %d: %s", path, n.Name, code, lastLines(out.String(), 3))
	}
	return path, ctx.Err()
}

// awaitDaemon waits for the daemon that the image's init starts.
func (m *Minne) awaitDaemon(ctx context.Context) error {
	return Until(ctx, 3*time.Minute, "the daemon to answer", func() error {
		_, err := m.Command(ctx, "show", "interfaces", "--json")
		return err
	})
}

// daemonInside finds the daemon's process in the machine, 0 for none.
func (m *Minne) daemonInside(ctx context.Context) (pid int) {
	out, err := m.node.Run(ctx, "sh", "-c", `for p in /proc/[0-9]*; do
	[ "$(tr '\0' ' ' <$p/cmdline 2>/dev/null)" = "`+imageProgram+` daemon " ] && echo "${p#/proc/}"; done; true`)
	if err != nil {
		return 0
	}
	fmt.Sscan(out, &pid) //nolint:errcheck // it prints numbers, or nothing
	return pid
}
