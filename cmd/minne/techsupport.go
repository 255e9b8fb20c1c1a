// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/appliance/remotehands"
	"minne/internal/daemon/router"
	"minne/internal/model/api"
	"minne/internal/model/config"
)

// supportLimit bounds what one command may add to the archive, bytes.
const supportLimit = 4 << 20

// supportViews are the views that go into the archive, each as JSON.
var supportViews = []router.AnyView{
	router.Interfaces, router.FastPath, router.Drops, router.Rates, router.BGPSummary, router.OSPFNeighbors("ospf", 0), router.BabelNeighbors,
	router.Neighbors("neighbors", ""), router.FlowsSummary, router.Optics, router.Sensors, router.Power, router.Services, router.Log,
	router.Doctor, router.Alarms,
}

// supportCommands are asked inside the router's network namespace.
var supportCommands = []string{
	"uname -a",
	"cat /proc/meminfo",
	"ip -d -s link",
	"ip address",
	"ip rule",
	"ip -6 rule",
	"ip route show table all proto kernel",
	"ip route show proto static",
	"ip -6 route show proto static",
	"ip neigh",
	"ip nexthop",
	"nft list ruleset",
	"sysctl -a -r ^net",
	"dmesg",
}

func newTechSupportCommand(a *app) *cobra.Command {
	var file string
	var toStick bool
	var wait time.Duration
	c := &cobra.Command{
		Use:   "tech-support",
		Short: "Write a support archive: configuration, logs and state",
		Long: `Write an archive for support: the configuration with its revisions, the daemon's log,
and the state of the router and its kernel. Secrets are replaced by their names.

With --to-stick the archive goes to the FAT partition labelled MINNE, which every PC can
read: the router's own, or that of another USB stick. The router's image does this at boot
when you hold the key t on its console.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if toStick && file != "" {
				return usageError{errors.New("--to-stick and --output: expected one of them")}
			}
			inst, err := a.inst()
			if err != nil {
				return err
			}
			// Without the secrets nothing could be redacted by value: then there is no archive.
			secrets, err := config.LoadSecrets(inst.Secrets)
			if err != nil {
				return fmt.Errorf("cannot read the secrets, so they cannot be removed from the archive: %w", err)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			awaitDaemon(c.Context(), client, wait)
			s := support{redact: newRedactor(secrets), frr: inst.FRRName}
			s.gather(c.Context(), client)
			archive, err := s.archive()
			if err != nil {
				return err
			}
			if file, err = putSupport(archive, file, toStick); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%s: %d files, secrets redacted\n", file, len(s.parts))
			return err
		},
	}
	c.Flags().BoolVar(&toStick, "to-stick", false, "write it to the FAT partition labelled MINNE")
	c.Flags().DurationVar(&wait, "wait", 0, "`time` to wait for a daemon that is starting")
	c.Flags().StringVarP(&file, "output", "o", "", "`file` to write (default minne-tech-support-DATE.tar.gz here)")
	return c
}

// support is an archive in the making. What can't be had is said in its place:
// a router in trouble is when the archive is needed.
type support struct {
	redact redactor
	frr    string // pathspace
	parts  []supportPart
}

type supportPart struct {
	name string
	text []byte
}

func (s *support) gather(ctx context.Context, client *api.Client) {
	s.add("version.txt", []byte(version()+"\n"), nil)
	status, err := api.GetStatus.Ask(ctx, client, api.Empty{})
	s.addJSON("status.json", status, err)
	stored, err := api.GetRevisions.Ask(ctx, client, api.Empty{})
	s.addJSON("revisions.json", stored.Revisions, err)
	running, err := api.GetRevision.Ask(ctx, client, api.RevisionNumber(0))
	s.add("minne.yaml", []byte(running.Text), err)
	for _, view := range slices.Concat(supportViews, router.ServiceViews()) {
		question := view.NewQuestion()
		err := api.SetDefaults(question)
		var answer any
		if err == nil {
			answer, err = view.AskAny(ctx, client, question)
		}
		s.addJSON("show/"+view.About().Path+".json", answer, err)
	}
	for _, line := range supportCommands {
		s.run(ctx, status.PID, line, strings.Fields(line)...)
	}
	s.run(ctx, status.PID, "frr running-config", "vtysh", "-N", s.frr, "-c", "show running-config")
}

// run adds what a command prints in the network namespace of the daemon.
func (s *support) run(ctx context.Context, pid int, name string, args ...string) {
	if pid > 0 {
		args = append([]string{"nsenter", "-t", fmt.Sprint(pid), "-n", "--"}, args...)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if len(out) > supportLimit {
		out = append(out[:supportLimit], "\n(cut here)\n"...)
	}
	s.add("system/"+strings.NewReplacer(" ", "-", "/", "_").Replace(name)+".txt", out, err)
}

func (s *support) addJSON(name string, v any, err error) {
	var text []byte
	if err == nil {
		text, err = json.MarshalIndent(v, "", "  ")
	}
	s.add(name, text, err)
}

func (s *support) add(name string, text []byte, err error) {
	if err != nil {
		text = fmt.Appendf(text, "\nnot available: %v\n", err)
	}
	s.parts = append(s.parts, supportPart{name, s.redact.do(text)})
}

// supportName begins the names of archives.
const supportName = "minne-tech-support"

// putSupport writes the archive, readable by its owner only, and returns where it is.
func putSupport(archive []byte, file string, toStick bool) (string, error) {
	suffix := time.Now().Format("20060102-150405") + ".tar.gz"
	if toStick {
		device, err := remotehands.Find()
		if err != nil {
			return "", err
		}
		name, err := remotehands.Save(device, supportName, suffix, archive)
		return name + " on the partition " + remotehands.Label + " (" + device + ")", err
	}
	if file == "" {
		file = supportName + "-" + suffix
	}
	return file, os.WriteFile(file, archive, 0o600)
}

// awaitDaemon waits until the daemon answers. Without one there is still much to say.
func awaitDaemon(ctx context.Context, client *api.Client, atMost time.Duration) {
	for end := time.Now().Add(atMost); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		if _, err := api.GetStatus.Ask(ctx, client, api.Empty{}); err == nil {
			return
		}
	}
}

// archive packs the parts.
func (s *support) archive() ([]byte, error) {
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	archive := tar.NewWriter(zip)
	now := time.Now()
	for _, p := range s.parts {
		h := &tar.Header{Name: "minne-tech-support/" + p.name, Mode: 0o600, Size: int64(len(p.text)), ModTime: now}
		if err := archive.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := archive.Write(p.text); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// redactor replaces secrets, by value and by where routing daemons print them.
type redactor struct{ values *strings.Replacer }

var frrSecret = regexp.MustCompile(`(?m)(\bpassword|\bauthentication-key|\bkey-string|\bmessage-digest-key \d+ md5|\bkeychain key|\bauthentication key-id \d+ hash-algo \S+ key)( \d)? \S+`)

// sysctlSecret is a setting that holds a key or a seed: the cookies of TCP Fast Open, the secret of stable
// addresses (RFC 7217), the hash key of network cards, the seed of equal-cost paths.
var sysctlSecret = regexp.MustCompile(`(?m)^(net\.[\w.:/-]*(?:key|secret|seed)\w*) = .*$`)

// linkSecret is a key or a password as ip, wg and their like print it.
var linkSecret = regexp.MustCompile(`(?mi)(\b(?:auth|enc|aead|auth-trunc|private[ -]?key|preshared[ -]?key|pre-shared-key|passphrase|psk)(?:[ \t]+[\w.-]+\(\S*\))?[ \t:=]+)(0x[0-9a-f]{8,}|[A-Za-z0-9+/]{42,44}=?)`)

func newRedactor(secrets config.Secrets) redactor {
	names := secrets.Names()
	// The longest first: one secret may be part of another.
	slices.SortFunc(names, func(a, b string) int {
		x, _ := secrets.Get(a)
		y, _ := secrets.Get(b)
		return len(y) - len(x)
	})
	var pairs []string
	for _, name := range names {
		value, _ := secrets.Get(name)
		if value == "" {
			continue
		}
		mark := "<secret " + name + ">"
		pairs = append(pairs, value, mark)
		if quoted, err := json.Marshal(value); err == nil { // as it stands in the JSON files
			pairs = append(pairs, string(quoted[1:len(quoted)-1]), mark)
		}
	}
	return redactor{strings.NewReplacer(pairs...)}
}

func (r redactor) do(text []byte) []byte {
	out := frrSecret.ReplaceAll([]byte(r.values.Replace(string(text))), []byte("$1 <redacted>"))
	out = sysctlSecret.ReplaceAll(out, []byte("$1 = <redacted>"))
	return linkSecret.ReplaceAll(out, []byte("$1<redacted>"))
}
