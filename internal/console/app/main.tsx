import { render } from "preact";
import { readAccess, tokens } from "./api";
import { follow } from "./live";
import { route } from "./route";
import { Shell } from "./shell";
import { AboutScreen } from "./about";
import { EventsScreen } from "./events";
import { ForecastScreen } from "./forecast";
import { GroupScreen } from "./group";
import { GroupsScreen } from "./groups";
import { HooksScreen } from "./hooks";
import { NodesScreen } from "./nodes";
import { NotifiersScreen } from "./notifiers";
import { OverviewScreen } from "./overview";
import { QueueScreen } from "./queue";
import { QueuesScreen } from "./queues";
import { ScheduleScreen } from "./schedule";
import { SchedulesScreen } from "./schedules";
import { TaskScreen } from "./task";
import { TasksScreen } from "./tasks";
import { WorkersScreen } from "./workers";
import { t } from "./i18n";
import { Empty, Title } from "./ui";

// Screens begin anew with another token: what the last one showed is gone.
const App = () => <Shell><Screen key={tokens.value} /></Shell>;

function Screen() {
  const [name = "", id] = route.value.path;
  const one = id !== undefined;
  switch (name) {
    case "": return <OverviewScreen />;
    case "tasks": return one ? <TaskScreen key={id} id={id} /> : <TasksScreen />;
    case "queues": return one ? <QueueScreen key={id} name={id} /> : <QueuesScreen />;
    case "workers": return <WorkersScreen />;
    case "jobs": return one ? <GroupScreen key={id} name={id} /> : <GroupsScreen />;
    case "forecast": return <ForecastScreen />;
    case "nodes": return <NodesScreen />;
    case "schedules": return one ? <ScheduleScreen key={id} name={id} /> : <SchedulesScreen />;
    case "events": return <EventsScreen />;
    case "notifiers": return <NotifiersScreen />;
    case "hooks": return <HooksScreen />;
    case "about": return <AboutScreen />;
  }
  return <><Title>{t("noScreen")}</Title><Empty><a href="#/">{t("overview")}</a></Empty></>;
}

void readAccess();
follow();
render(<App />, document.getElementById("app")!);
