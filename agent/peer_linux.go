package agent

import (
	"fmt"
	"net"
	"syscall"
)

// peerUID is the user at the other end of a unix socket (SO_PEERCRED, unix(7)).
func peerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("reading the peer of the socket: %w", err)
	}
	var cred *syscall.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return 0, fmt.Errorf("reading the peer of the socket: %w", err)
	}
	return int(cred.Uid), nil
}
