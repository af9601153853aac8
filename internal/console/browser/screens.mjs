// Every screen, by its place behind #. ids are those of ten; without them a screen shows what is not there.
export function screens(ids) {
  return [
    ["overview", "/"], ["tasks", "/tasks"], ["tasks-dead", "/tasks?state=dead"], ["task", "/tasks/" + (ids?.dead ?? "0")], ["task-running", "/tasks/" + (ids?.running ?? "0")], ["task-blocked", "/tasks/" + (ids?.blocked ?? "0")],
    ["queues", "/queues"], ["queue", "/queues/mail"], ["limited", "/queues/reports"], ["workers", "/workers"], ["worker", "/workers?open=mailer-1"],
    ["jobs", "/jobs"], ["group", "/jobs/feeds"], ["forecast", "/forecast"], ["nodes", "/nodes"], ["schedules", "/schedules"], ["schedule", "/schedules/nightly"],
    ["events", "/events"], ["notifiers", "/notifiers"], ["hooks", "/hooks"], ["about", "/about"],
  ];
}
