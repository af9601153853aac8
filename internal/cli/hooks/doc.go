// Package hooks has the commands that look after hooks, which other programs call: rota hook.
package hooks
