// Package terminal writes text to people's terminals.
//
// Most of what the tools print comes from elsewhere: ids of clusters and machines,
// groups, errors of providers. A terminal acts on control characters in it: it moves
// the cursor, changes its title, or answers as if somebody had typed. So nothing
// reaches a terminal but through here:
//
//   - Writer stands in front of a process's standard output and error. It makes
//     control characters visible, whoever wrote them and by whatever way: \x1b for
//     ESC, \u009b for CSI, \xff for a byte that is not UTF-8. Line feeds and tabs
//     pass. Text in JSON stays valid JSON with the same meaning: C0 controls and
//     invalid UTF-8 do not stand in it as they are, and for all others the escape
//     is JSON's own. Control sequences of the process itself go past it (Control).
//   - Table writes rows in columns. In a cell line feeds and tabs are escaped too,
//     and columns are as wide as the terminal draws them: an East Asian wide
//     character takes two, a combining mark none.
package terminal
