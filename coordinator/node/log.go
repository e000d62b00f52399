package node

import (
	"context"
	"log/slog"

	"go.uber.org/zap/zapcore"
)

// etcdLog hands etcd's lines on: errors as they are, warnings as information,
// since most of them are about peers that come and go; the rest is left out.
func etcdLog(log *slog.Logger) zapcore.Core { return &logCore{log: log} }

type logCore struct {
	log    *slog.Logger
	fields []zapcore.Field
}

func (c *logCore) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	return &logCore{c.log, append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

func (c *logCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

func (c *logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelDebug
	if e.Level >= zapcore.ErrorLevel {
		level = slog.LevelWarn
	}
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range append(c.fields[:len(c.fields):len(c.fields)], fields...) {
		f.AddTo(enc)
	}
	args := []any{"from", "etcd"}
	for k, v := range enc.Fields {
		args = append(args, k, v)
	}
	c.log.Log(context.Background(), level, e.Message, args...)
	return nil
}

func (c *logCore) Sync() error { return nil }
