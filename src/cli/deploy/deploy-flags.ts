import type { OutputFormat } from "../command-options.ts";

export interface DeployFlags {
  readonly name?: string;
  /** The port on which the app listens; false if it listens on no port. */
  readonly port?: number | false;
  readonly domain?: string;
  readonly env?: readonly string[];
  readonly image?: string;
  readonly git?: string;
  readonly ref?: string;
  readonly path?: string;
  readonly credential?: string;
  readonly quiet?: boolean;
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly output?: OutputFormat;
  /** The verb waits for the deploy unless this flag is false. */
  readonly wait?: boolean;
  readonly timeout: number;
}
