// SPDX-License-Identifier: Apache-2.0

// Command minne is the router's one command: the daemon and all that operators
// ask of it. main wires; each group of commands has a file of its own.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"minne/internal/base/instance"
	"minne/internal/model/api"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// groups are the command groups, in the order of the help text.
var groups = []func(*app) *cobra.Command{
	newSetupCommand,
	newCheckCommand,
	newDiffCommand,
	newConfigCommand,
	newApplyCommand,
	newConfirmCommand,
	newRollbackCommand,
	newRevisionsCommand,
	newShowCommand,
	newFlowsCommand,
	newStatusCommand,
	newDoctorCommand,
	newAlarmCommand,
	newExplainCommand,
	newCaptureCommand,
	newPingCommand,
	newTracerouteCommand,
	newMTRCommand,
	newClearCommand,
	newFastPathCommand,
	newLoginCommand,
	newUplinkCommand,
	newSetCommand,
	newWireGuardCommand,
	newWebCommand,
	newBootCommand,
	newDaemonCommand,
	newStopCommand,
	newUpgradeCommand,
	newLabCommand,
	newBenchCommand,
	newBOMCommand,
	newBackupCommand,
	newRestoreCommand,
	newTechSupportCommand,
	newVersionCommand,
}

// app is what all commands share: which instance they are about and where they write.
type app struct {
	instance string
	root     string
	out      io.Writer
	err      io.Writer
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	a := &app{out: out, err: errOut}
	root := newRootCommand(a)
	cobra.EnablePrefixMatching = true // sh int is show interfaces
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	if code == exitDegraded {
		return code // what is wrong was the answer
	}
	if code == exitInvalid {
		fmt.Fprintln(errOut, err) // file:line:column stands first, where editors look for it
	} else {
		fmt.Fprintln(errOut, "minne:", err)
	}
	return code
}

// newRootCommand is "minne" with all that stands below it.
func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "minne",
		Short: "A router from one configuration file",
		Long: `Minne makes a Linux machine a router: one configuration file, the kernel, and an XDP fast path.

Commands can be abbreviated while they are unambiguous: "minne sh int" is "minne show interfaces".`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringVar(&a.instance, "instance", os.Getenv("MINNE_INSTANCE"), "`name` of the router instance, where a host has several (MINNE_INSTANCE)")
	root.PersistentFlags().StringVar(&a.root, "root", os.Getenv("MINNE_ROOT"), "`directory` that all paths of the instance start from, for labs and tests (MINNE_ROOT)")
	for _, group := range groups {
		root.AddCommand(group(a))
	}
	strict(root)
	a.completeNames(root)
	return root
}

// inst returns the instance that the command is about.
func (a *app) inst() (instance.Instance, error) {
	inst, err := instance.New(a.instance)
	if err != nil {
		return inst, usageError{err}
	}
	if a.root != "" {
		inst = inst.Under(a.root)
	}
	return inst, nil
}

// client returns a client of the instance's daemon.
func (a *app) client() (*api.Client, error) {
	inst, err := a.inst()
	if err != nil {
		return nil, err
	}
	return api.NewClient(inst.ControlSocket()), nil
}
