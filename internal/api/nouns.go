package api

// calls are those about one noun. They know the door, by which each comes in and goes out, and of
// what is behind it the small part that they ask for.
type calls interface {
	// register lets them be made.
	register()
}

// nouns are all calls that there are, in the order of the document.
func nouns(door *API, overviews *overviews) []calls {
	conf := &door.conf
	engine, cluster := conf.Engine, conf.Cluster
	hot := newHotCalls(door, engine, conf.Secret, newQueueGate(engine.Queues))
	return []calls{
		&overviewCalls{door, overviews},
		&taskCalls{door, engine, cluster, engine},
		&signalCalls{door, engine},
		&childCalls{door, hot, engine},
		hot,
		&streamCalls{door: door, hot: hot},
		&logCalls{door, engine},
		&queueCalls{door, engine, hot.makers},
		&keyCalls{door, engine, engine},
		&explainCalls{
			door: door, tasks: engine, reasons: engine, queues: engine,
			workers: cluster, nodes: cluster, claims: cluster,
		},
		&historyCalls{door, conf.History},
		&forecastCalls{door, conf.Forecasts, engine, make(chan struct{}, 1)},
		&workerCalls{door, cluster, conf.Drains},
		&groupCalls{door, conf.Groups},
		&jobCalls{door, conf.Jobs, conf.Placements},
		&placementCalls{door, conf.Placements},
		&scheduleCalls{door: door, schedules: conf.Schedules},
		newFireCalls(door, conf.Fires),
		&almanacCalls{door, conf.Almanac},
		&clusterCalls{door, cluster, cluster, conf.Groups},
		&claimCalls{door, cluster, cluster},
		&eventCalls{door, conf.Events},
		&notifierCalls{door, conf.Notifiers},
		newHookCalls(door, hot, conf.Hooks, engine),
		&nodeCalls{door},
		&accessCalls{door},
		&pageCalls{door},
	}
}
