package rotaotel

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// scope names who made the spans.
const scope = "github.com/rotahq/rota/otel"

// Tracer makes the spans of tasks. All methods may be called at the same time.
type Tracer struct {
	tracer trace.Tracer // nil = no spans are made
}

// New makes spans by way of a program's provider; nil = none are made.
func New(provider trace.TracerProvider) *Tracer {
	if provider == nil {
		return &Tracer{}
	}
	return &Tracer{provider.Tracer(scope)}
}

// What spans say. The first ones are those of OpenTelemetry's messaging systems.
const (
	destination = attribute.Key("messaging.destination.name")
	messageID   = attribute.Key("messaging.message.id")
	batchCount  = attribute.Key("messaging.batch.message_count")
	errorType   = attribute.Key("error.type")

	stage    = attribute.Key("rota.stage")
	attempt  = attribute.Key("rota.attempt")
	worked   = attribute.Key("rota.worker")
	outcome  = attribute.Key("rota.outcome")
	status   = attribute.Key("rota.status")
	existing = attribute.Key("rota.existing")
)

// What samplers may go by, besides name and kind: which of the four a span is.
var (
	toSubmit = trace.WithAttributes(system, operation("submit"), operationType("send"))
	toWait   = trace.WithAttributes(system, operation("wait"))
	toRun    = trace.WithAttributes(system, operation("run"), operationType("process"))
	toStore  = trace.WithAttributes(system, operation("store"), operationType("settle"))
)

var system = attribute.String("messaging.system", "rota")

func operation(name string) attribute.KeyValue {
	return attribute.String("messaging.operation.name", name)
}

func operationType(name string) attribute.KeyValue {
	return attribute.String("messaging.operation.type", name)
}
