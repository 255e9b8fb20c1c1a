// SPDX-License-Identifier: Apache-2.0

package router

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"minne/internal/base/instance"
	"minne/internal/base/medium"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/fastpath/label"
	"minne/internal/subsystem/firewall"
	"minne/internal/subsystem/services"
)

// reader reads configurations and the secrets beside them.
type reader struct {
	inst   instance.Instance
	log    *slog.Logger
	config string // the file to look at, when secrets may lie beside it; "" for the instance's only
}

// read parses a configuration. When strict, everything about it must be right.
// Else it is one that ran before, of which as much as possible shall run again:
// without readable secrets the parts that need none. reach says which files it may name.
func (r reader) read(source, text string, strict bool, reach policy.Reach) (Input, error) {
	cfg, err := config.Parse(source, []byte(text))
	if err != nil {
		return Input{}, err
	}
	secrets, err := r.secrets()
	if err != nil && !strict {
		r.log.Error("cannot read the secrets; continuing without them", "error", err)
		err = nil
	}
	if err == nil && strict {
		err = config.Check(cfg, secrets)
	}
	if err != nil {
		return Input{}, err
	}
	in := Input{Config: cfg, Secrets: secrets}
	in.Firewall, err = firewall.Render(cfg, services.Openings(cfg), filepath.Dir(r.inst.Config), reach)
	if err == nil && strict {
		err = in.Firewall.Broken
	}
	if err != nil {
		return in, err
	}
	in.Labels, err = label.Compile(cfg, filepath.Dir(r.inst.Config), reach)
	if err != nil && !strict {
		r.log.Error("cannot load the patterns; flows get no labels", "error", err)
		err = nil
	}
	return in, err
}

// secretsFile is the instance's, or on a machine that has none and only prepares files, the one beside
// the configuration that is looked at.
func (r reader) secretsFile() string {
	if r.config == "" {
		return r.inst.Secrets
	}
	if _, err := os.Stat(r.inst.Secrets); !errors.Is(err, fs.ErrNotExist) {
		return r.inst.Secrets
	}
	file := filepath.Join(filepath.Dir(r.config), filepath.Base(r.inst.Secrets))
	if _, err := os.Stat(file); err != nil {
		return r.inst.Secrets
	}
	return file
}

func (r reader) secrets() (config.Secrets, error) {
	secrets, err := config.LoadSecrets(r.secretsFile())
	if errors.Is(err, unix.EIO) {
		err = fmt.Errorf("%w: %w", medium.ErrGone, err)
	}
	return secrets, err
}

// preview is read for users who may not know the secrets: it checks all but those.
func (r reader) preview(source, text string, _ bool) (Input, error) {
	cfg, err := config.Parse(source, []byte(text))
	if err != nil {
		return Input{}, err
	}
	secrets, err := r.secrets()
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		secrets, err = config.UnreadSecrets(), nil
	}
	if err == nil {
		err = config.Check(cfg, secrets)
	}
	in := Input{Config: cfg, Secrets: secrets}
	if err == nil {
		in.Firewall, err = firewall.Render(cfg, services.Openings(cfg), filepath.Dir(r.inst.Config))
	}
	if err == nil {
		err = in.Firewall.Broken
	}
	if err == nil {
		in.Labels, err = label.Compile(cfg, filepath.Dir(r.inst.Config))
	}
	return in, err
}

// CheckFile says whether a configuration file is right for the instance, and
// returns its text with what is odd about it. It needs no rights but to read the file.
func CheckFile(inst instance.Instance, file string) (text []byte, odd []config.Problem, err error) {
	_, text, err = config.Load(file)
	if err != nil {
		return nil, nil, err
	}
	in, err := reader{inst, slog.New(slog.DiscardHandler), file}.preview(file, string(text), true)
	if err != nil {
		return text, nil, err
	}
	return text, in.odd(), nil
}
