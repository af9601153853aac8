package waiting
