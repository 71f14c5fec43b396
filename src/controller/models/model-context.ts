import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { Store } from "../../store/store.ts";
import type { AssistantControl, AssistantDaemon } from "./assistant/port.ts";
import type { AssistantWatch } from "./assistant-watch.ts";
import type { ModelFiles } from "./files/port.ts";
import type { ModelSources } from "./hub/port.ts";
import type { ModelJobs } from "./model-jobs.ts";

/** What every run of the Model reconciler shares. */
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
  /** 0 to 1; spreads back-offs. */
  readonly random: () => number;
  /** Something may have become of no use: looked at in the background. */
  readonly onFilesUnused: () => void;
}
