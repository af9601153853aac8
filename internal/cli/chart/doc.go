// Package chart draws what a queue, a stage of one or a worker did lately: a row for each number, a
// column for each period, as rota queue show, rota worker show and rota top print it.
//
// Of asks a node for the periods; History is the answer, with its JSON and its Text. Column says
// how long a period is, so that the columns fit where they are printed.
package chart
