package v1alpha1

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Limits of a quantity's text. The schema of the custom resources lets an exponent have
// any size, and the library computes with it: 1e-2147483648 takes it longer than
// anybody waits, to read or to compare.
const (
	quantityBytesMax    = 64
	quantityExponentMax = 99
)

var (
	errQuantityLong     = fmt.Errorf("a quantity is longer than %d characters", quantityBytesMax)
	errQuantityExponent = fmt.Errorf("the exponent of a quantity is not a whole number between -%d and %[1]d", quantityExponentMax)
)

// ParseQuantity reads a quantity that a user of the cluster has written. It takes a
// bounded time, whatever the text, and so does all that is done with the quantity.
func ParseQuantity(text string) (resource.Quantity, error) {
	if len(text) > quantityBytesMax {
		return resource.Quantity{}, errQuantityLong
	}
	if err := checkExponent(text); err != nil {
		return resource.Quantity{}, err
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, errors.New("a quantity is not a number such as 4, 1.5, 500m, 16Gi or 1e3")
	}
	return q, nil
}

// checkExponent refuses exponents that are too large. An E without digits behind it is
// the suffix of 10^18, and Ei one of 2^60.
func checkExponent(text string) error {
	at := strings.IndexAny(text, "eE")
	if at < 0 || at+1 == len(text) || text[at+1] == 'i' {
		return nil
	}
	digits := text[at+1:]
	if digits[0] == '-' || digits[0] == '+' {
		digits = digits[1:]
	}
	value := 0
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return errQuantityExponent
		}
		if value = 10*value + int(c-'0'); value > quantityExponentMax {
			return errQuantityExponent
		}
	}
	return nil
}
