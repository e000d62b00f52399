// Package httpguard decides which HTTP requests a process answers, and serves
// within fixed limits. Every HTTP server of the project is one of this package.
//
// # Who may ask for what
//
// Each route belongs to one class. A request is judged by what it shows and by
// where it comes from:
//
//		class    routes                    this machine    reader            admin
//		Open     metrics and probes        yes             yes               yes, and so may all others
//		Read     page, API that only reads yes             yes               yes
//		Inspect  profiles of the process   yes             no                yes
//		Change   API that changes          only if no      no                yes
//		                                   credential is
//		                                   set up
//
//	  - An admin shows the token (Authorization: Bearer), or over TLS a certificate
//	    of bigfleet://admin.
//	  - A reader shows a certificate of bigfleet://readonly, or the cookie that a
//	    browser gets for the token at /login. The cookie never allows a change:
//	    browsers send it unasked.
//	  - This machine is a loopback peer that names an allowed host. A request that
//	    a proxy has passed on (Forwarded, X-Forwarded-For, X-Real-Ip) does not count
//	    as from this machine.
//	  - Credentials are set up when there is a token, or when the connection is TLS.
//
// # What browsers are kept from
//
// Host: a request that shows neither token nor certificate must name an allowed
// host: localhost, a loopback address, the address that it arrived at, the name
// of the machine, or one of Config.Hosts. A foreign page that has its own name
// point here (DNS rebinding) is refused by that.
//
// Origin: a request that changes something must not come from a page of another
// origin (http.CrossOriginProtection), whatever it shows. A request that reads
// must not be made by a foreign page either, unless it opens the page in a tab.
//
// Headers: answers say that they are not to be framed, sniffed or embedded.
//
// # Limits
//
// Connections, connections of one address, headers, bodies and the time for
// each are bounded; see the constants of Serve.
package httpguard
