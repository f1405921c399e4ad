package contract_test

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/redlock-go/redlock"
)

// recorder returns a Trace that appends name to calls in each of its functions.
func recorder(name string, calls *[]string) *redlock.Trace {
	t := &redlock.Trace{}
	v := reflect.ValueOf(t).Elem()
	for i := range v.NumField() {
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func([]reflect.Value) []reflect.Value {
			*calls = append(*calls, name)
			return nil
		}))
	}
	return t
}

// callField calls the function in the i-th field of a Trace with an empty info.
func callField(t *redlock.Trace, i int) {
	f := reflect.ValueOf(t).Elem().Field(i)
	f.Call([]reflect.Value{reflect.ValueOf(context.Background()), reflect.Zero(f.Type().In(1))})
}

// TestJoinTracesCallsEachFunctionOfEachTrace goes through the fields of Trace, so that a field that is added later is
// not forgotten.
func TestJoinTracesCallsEachFunctionOfEachTrace(t *testing.T) {
	var calls []string
	joined := redlock.JoinTraces(recorder("a", &calls), nil, recorder("b", &calls), &redlock.Trace{}, recorder("c", &calls))
	fields := reflect.TypeFor[redlock.Trace]()
	for i := range fields.NumField() {
		calls = nil
		callField(joined, i)
		if want := []string{"a", "b", "c"}; !slices.Equal(calls, want) {
			t.Errorf("%s calls %v, want %v", fields.Field(i).Name, calls, want)
		}
	}
}

func TestJoinTracesLeavesFunctionsNilThatNoTraceHas(t *testing.T) {
	joined := redlock.JoinTraces(nil, &redlock.Trace{Lost: func(context.Context, redlock.LostInfo) {}}, &redlock.Trace{})
	v := reflect.ValueOf(joined).Elem()
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsNil() != (name != "Lost") {
			t.Errorf("%s is nil: %v", name, v.Field(i).IsNil())
		}
	}
	if got := redlock.JoinTraces(); got == nil {
		t.Error("JoinTraces() = nil, want a Trace without functions")
	}
}

func TestJoinTracesCallsTheOthersIfAFunctionPanics(t *testing.T) {
	var calls []string
	first := &redlock.Trace{LockStart: func(context.Context, redlock.LockStartInfo) { panic("the user's") }}
	joined := redlock.JoinTraces(first, recorder("b", &calls))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		joined.LockStart(t.Context(), redlock.LockStartInfo{})
	}()
	if len(calls) != 1 {
		t.Errorf("the second Trace was called %d times, want once", len(calls))
	}
}
