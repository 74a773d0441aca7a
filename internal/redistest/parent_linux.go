package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the server with the test binary even when no cleanup runs,
// as on a test timeout.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
