import type { OutputFormat } from "../command-options.ts";

export interface DeployFlags {
  readonly name?: string;
  readonly port?: number;
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
  /** Undefined: the verb waits for a build, but not for an image. */
  readonly wait?: boolean;
  readonly timeout: number;
}
