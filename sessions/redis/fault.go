package redis

import (
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// outOfService are the answers of a server that cannot serve now, and may soon.
var outOfService = []string{
	"LOADING", "BUSY", "OOM", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF",
	"NOAUTH", "WRONGPASS", "NOPERM", "MOVED", "ASK", "max number of clients", "Function not found",
}

// unavailable reports whether err means that the store did not serve: there
// was no answer, not in time, or one that says it cannot.
func unavailable(err error) bool {
	if err == nil || errors.Is(err, goredis.Nil) || errors.Is(err, errDamaged) {
		return false
	}
	var answer goredis.Error
	if !errors.As(err, &answer) {
		return true
	}
	said := strings.TrimPrefix(answer.Error(), "ERR ")
	for _, prefix := range outOfService {
		if strings.HasPrefix(said, prefix) {
			return true
		}
	}
	return false
}

// fault wraps err by what was done, and by [sessions.ErrUnavailable] or
// [sessions.ErrNotFound] where that is what it means. No error of go-redis
// leaves the package without it.
func fault(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, goredis.Nil):
		return fmt.Errorf("%s: %w", doing, sessions.ErrNotFound)
	case unavailable(err):
		return fmt.Errorf("%s: %w: %w", doing, sessions.ErrUnavailable, err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}
