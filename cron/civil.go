package cron

// Local times here are seconds since 1970 as a wall clock counts them, without any zone.

const day = 24 * 3600

// civil is the date of a day, counted from 1970-01-01.
func civil(days int64) (year int64, month, dayOfMonth int) {
	days += 719468 // days from 0000-03-01
	era := floorDiv(days, 146097)
	doe := days - era*146097                               // day of era, 0 to 146096
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365 // year of era, 0 to 399
	doy := doe - (365*yoe + yoe/4 - yoe/100)               // from March 1st
	mp := (5*doy + 2) / 153                                // month, from March = 0
	dayOfMonth = int(doy-(153*mp+2)/5) + 1
	month = int(mp) + 3
	year = yoe + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, dayOfMonth
}

// dayOf is the inverse of civil.
func dayOf(year int64, month, dayOfMonth int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(year, 400)
	yoe := year - era*400
	doy := int64(153*(month-3)+2)/5 + int64(dayOfMonth) - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return era*146097 + doe - 719468
}

// weekday of a day; 0 = Sunday.
func weekday(days int64) int { return int(((days+4)%7 + 7) % 7) }

// daysIn is how many days a month has.
func daysIn(year int64, month int) int {
	switch {
	case month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0):
		return 29
	case month == 2:
		return 28
	case month == 4 || month == 6 || month == 9 || month == 11:
		return 30
	}
	return 31
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
