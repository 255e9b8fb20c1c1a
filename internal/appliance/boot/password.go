// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"log/slog"
	"os"

	"minne/internal/base/instance"
	"minne/internal/model/config"
	"minne/internal/subsystem/services/admin"
)

// password gives admin the password of the last confirmed revision, before there is
// a console: a daemon that does not come up must not open the router to whoever
// finds its serial line. What can't be read is left to the daemon, which says why.
func password(ctx context.Context, _ *Report) error {
	inst, err := instance.New(instance.Default)
	if err != nil {
		return err
	}
	d, err := storedPassword(inst)
	if err != nil {
		return nil
	}
	return admin.New(true, slog.New(slog.DiscardHandler)).Apply(ctx, d)
}

// storedPassword is what a router's stored configuration says of admin's password, before anything runs.
func storedPassword(inst instance.Instance) (admin.Desired, error) {
	name, text, err := stored(inst)
	if err != nil {
		return admin.Desired{}, err
	}
	cfg, err := config.Parse(name, text)
	if err != nil {
		return admin.Desired{}, err
	}
	secrets, err := config.LoadSecrets(inst.Secrets)
	if err != nil {
		return admin.Desired{}, err
	}
	return admin.Render(cfg, secrets)
}

// stored is the last confirmed revision, or the file that the daemon's first start takes.
func stored(inst instance.Instance) (name string, text []byte, err error) {
	if last, ok := confirmed(inst); ok {
		return last.Source, []byte(last.Config), nil
	}
	text, err = os.ReadFile(inst.Config)
	return inst.Config, text, err
}
