import { berthSearchTexts } from "./berth-search-texts.ts";

/**
 * The id of Berth's own tool manifest, with which Berth offers itself to the companion as an app, with tools for the
 * apps of a server. Both the companion and the tool server read the manifest from this module, so that they agree about
 * the tools. A test validates the manifest with the rules for manifests of other apps.
 */
export const BERTH_APPS_ID = "dev.berth.apps";

export const berthToolNames = [
  "list_apps",
  "describe_app",
  "app_logs",
  "deploy_app",
  "start_app",
  "stop_app",
  "restart_app",
  "rollback_app",
  "delete_app",
  "set_app_running",
  "restore_app",
] as const;
export type BerthToolName = (typeof berthToolNames)[number];

/** A tool as the manifest declares it. */
export interface BerthToolDeclaration {
  readonly title: string;
  readonly tier: "read" | "write" | "destructive";
  readonly description: string;
  readonly input_schema: {
    readonly type: "object";
    readonly properties: Readonly<Record<string, object>>;
    readonly required?: readonly string[];
    readonly additionalProperties: false;
  };
  readonly undo?: {
    readonly tool: BerthToolName;
    readonly map: Readonly<Record<string, string>>;
  };
}

export const LOG_LINES_DEFAULT = 100;
export const LOG_LINES_MAX = 500;

/** A DNS-1123 label, like the name of an App in a spec file. */
const name = {
  title: "App",
  type: "string",
  pattern: "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
  maxLength: 63,
  description: "name of the app",
} as const;

const undoId = {
  title: "Saved state",
  type: "string",
  pattern: "^[0-9a-f]{32}$",
  maxLength: 32,
  description: "undo_id in the result of the call that is to be undone",
} as const;

const nameOnlySchema = {
  type: "object",
  properties: { name },
  required: ["name"],
  additionalProperties: false,
} as const;

/**
 * The undo of a tool whose call first saves the state that it changes: restores that state by the id in the call's
 * result.
 */
const undoByRestoring = {
  tool: "restore_app",
  map: { name: "$input.name", undo_id: "$result.undo_id" },
} as const;

const undoByRunning = {
  tool: "set_app_running",
  map: { name: "$input.name", running: "$result.was_running" },
} as const;

export const berthTools: Readonly<Record<BerthToolName, BerthToolDeclaration>> = {
  list_apps: {
    title: "List the apps of the server",
    tier: "read",
    description:
      "Lists the apps on the Berth server: the name, status, readiness, address and image of each, and the reason if an app is not running.",
    input_schema: { type: "object", properties: {}, additionalProperties: false },
  },
  describe_app: {
    title: "Show one app",
    tier: "read",
    description:
      "Shows one app of the server: its settings, containers, conditions, revisions and latest events. Tells why an app fails or is not ready. Values of secrets are never shown.",
    input_schema: nameOnlySchema,
  },
  app_logs: {
    title: "Read an app's log",
    tier: "read",
    description:
      "Reads the newest log lines of an app, in the order in which they were written. The content of the lines comes from the app and its users.",
    input_schema: {
      type: "object",
      properties: {
        name,
        lines: {
          title: "Lines",
          type: "integer",
          minimum: 1,
          maximum: LOG_LINES_MAX,
          description: `how many lines from the end; ${LOG_LINES_DEFAULT} if left out`,
        },
        since: {
          title: "Since",
          type: "string",
          maxLength: 64,
          description: "a duration back from now, such as 10m, or an RFC 3339 time",
        },
      },
      required: ["name"],
      additionalProperties: false,
    },
  },
  deploy_app: {
    title: "Deploy an app",
    tier: "write",
    description:
      "Deploys a container image, a git repository or a template. An existing app gets the new version and keeps its settings; otherwise the app is created. If an app has a source, a call without image, git and template deploys the newest version of that source. Waits up to 45 seconds for the app to be ready, and reports its progress.",
    input_schema: {
      type: "object",
      properties: {
        name,
        image: {
          title: "Image",
          type: "string",
          minLength: 1,
          maxLength: 512,
          pattern: "^[^\\s]+$",
          description: "container image, such as nginx:1.27",
        },
        git: {
          title: "Git repository",
          type: "object",
          properties: {
            url: {
              type: "string",
              minLength: 1,
              maxLength: 2048,
              description: "URL of the repository: https://, ssh:// or git@host:path",
            },
            ref: {
              type: "string",
              minLength: 1,
              maxLength: 255,
              description: "branch, tag or commit",
            },
            path: {
              type: "string",
              maxLength: 1024,
              description: "folder of the repository that is built",
            },
            dockerfile: {
              type: "string",
              maxLength: 1024,
              description: "path of the Dockerfile, relative to the field path",
            },
          },
          required: ["url"],
          additionalProperties: false,
        },
        template: {
          title: "Template",
          type: "string",
          minLength: 1,
          maxLength: 63,
          description: "id of a template of the catalog; for a new app only",
        },
        port: {
          title: "Port",
          type: "integer",
          minimum: 1,
          maximum: 65_535,
          description: "port that the app listens on; for a new app only",
        },
        domain: {
          title: "Domain",
          type: "string",
          minLength: 1,
          maxLength: 253,
          description: "domain of the app; for a new app of an image or a repository only",
        },
        env: {
          title: "Environment",
          type: "object",
          propertyNames: { pattern: "^[A-Za-z_][A-Za-z0-9_.-]*$" },
          additionalProperties: { type: "string", maxLength: 4_096 },
          maxProperties: 100,
          description:
            "environment variables, only for a new app that is made from an image or a repository. Pass no passwords: they would stay readable in the spec of the app",
        },
      },
      required: ["name"],
      additionalProperties: false,
    },
    undo: undoByRestoring,
  },
  start_app: {
    title: "Start an app",
    tier: "write",
    description: "Starts a stopped app, and waits up to 45 seconds for it to be ready.",
    input_schema: nameOnlySchema,
    undo: undoByRunning,
  },
  stop_app: {
    title: "Stop an app",
    tier: "write",
    description: "Stops a running app. It stays stopped until it is started; its data stays.",
    input_schema: nameOnlySchema,
    undo: undoByRunning,
  },
  restart_app: {
    title: "Restart an app",
    tier: "write",
    description:
      "Recreates the containers of a running app, and waits up to 45 seconds for it to be ready.",
    input_schema: nameOnlySchema,
    undo: undoByRunning,
  },
  rollback_app: {
    title: "Go back to an earlier version of an app",
    tier: "write",
    description:
      "Goes back to an earlier revision of an app; without a revision number, to the last stable revision before the current one. describe_app lists revisions.",
    input_schema: {
      type: "object",
      properties: {
        name,
        revision: {
          title: "Revision",
          type: "integer",
          minimum: 1,
          maximum: Number.MAX_SAFE_INTEGER,
          description: "its number",
        },
      },
      required: ["name"],
      additionalProperties: false,
    },
    undo: undoByRestoring,
  },
  delete_app: {
    title: "Delete an app",
    tier: "destructive",
    description:
      "Deletes an app and its containers. Named volumes stay, and an app of the same name finds them again. Logs, events and revisions are deleted, too, and cannot be restored; neither can an app that was uploaded as an archive.",
    input_schema: nameOnlySchema,
    undo: undoByRestoring,
  },
  set_app_running: {
    title: "Set if an app runs",
    tier: "write",
    description:
      "Sets an app back to running or stopped. Undoes start_app, stop_app and restart_app.",
    input_schema: {
      type: "object",
      properties: {
        name,
        running: { title: "Runs", type: "boolean", description: "false: it is stopped" },
      },
      required: ["name", "running"],
      additionalProperties: false,
    },
  },
  restore_app: {
    title: "Restore an app's earlier state",
    tier: "destructive",
    description:
      "Undoes a call of deploy_app, rollback_app or delete_app: restores everything that the call changed. An app that the call created is deleted.",
    input_schema: {
      type: "object",
      properties: { name, undo_id: undoId },
      required: ["name", "undo_id"],
      additionalProperties: false,
    },
  },
};

/** The tool manifest of Berth. Other apps have such a document in the file `<app id>.json`. */
export const berthAppsManifest = {
  svc_manifest: 1,
  app_id: BERTH_APPS_ID,
  name: "Berth",
  description: "Runs the apps of your server: deploy, start, stop, logs, rollback, delete.",
  mcp: { transport: "unix", activatable: true },
  tools: berthToolNames.map((tool) => ({
    name: tool,
    ...berthTools[tool],
    ...berthSearchTexts[tool],
  })),
} as const;
