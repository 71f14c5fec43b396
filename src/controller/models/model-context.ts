import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { Store } from "../../store/store.ts";
import type { AssistantControl, AssistantDaemon } from "./assistant/port.ts";
import type { AssistantWatch } from "./assistant-watch.ts";
import type { ModelFiles } from "./files/port.ts";
import type { ModelSources } from "./hub/port.ts";
import type { ModelJobs } from "./model-jobs.ts";

/** The dependencies of the Model reconciler. */
export interface ModelContext {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly sources: ModelSources;
  readonly files: ModelFiles;
  readonly assistant: AssistantControl;
  readonly daemon: AssistantDaemon;
  readonly watch: AssistantWatch;
  readonly jobs: ModelJobs;
  /** Returns a random number from 0 to 1, to spread back-offs. */
  readonly random: () => number;
  /** Called when files may have become unused. A collection in the background then removes unused files. */
  readonly onFilesUnused: () => void;
}
