package mtls

import (
	"log/slog"
	"net"
)

// WarnIfExposed logs a warning when a server takes calls in plaintext on an
// address that other machines may reach. Flag names the server's address and has
// a loopback address as one remedy, as in --listen.
func (m *Material) WarnIfExposed(log *slog.Logger, flag string, address net.Addr) {
	if m != nil || loopback(address) {
		return
	}
	log.Warn("this port is plaintext and other machines may reach it: everybody who does may claim any identity",
		"address", address.String(), "remedy", "give --tls-cert, --tls-key and --tls-ca, or a loopback address with "+flag)
}

// loopback tells whether only processes of this machine reach an address.
func loopback(address net.Addr) bool {
	switch a := address.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}
