import { statfs } from "node:fs/promises";
import { arch, availableParallelism, freemem, hostname, totalmem, type, uptime } from "node:os";
import type { EngineWriter } from "../../controller/lease/port.ts";
import { SystemConfig, SystemInfo } from "../../resources/wire/system.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { NoQuery, responses } from "../route-schemas.ts";
import { listTemplates } from "../template-catalog.ts";
import { isReady } from "../views/app.ts";
import { isModelReady } from "../views/models.ts";

export function systemRoutes(api: Api, context: ApiContext): void {
  const { store, control, clock, config } = context;

  api.get(
    "/api/system/info",
    {
      config: { access: "read" },
      schema: {
        summary: "The machine, the engine, and counts of resources",
        tags: ["system"],
        querystring: NoQuery,
        response: responses({ 200: SystemInfo }),
      },
    },
    async () => {
      const engine = control.engine();
      const apps = store.list("App");
      const models = store.list("Model");
      const disk = await statfs(config.dataDir);
      return {
        version: context.version,
        instance_id: store.instanceId,
        hostname: hostname(),
        os: type(),
        arch: arch(),
        cpus: availableParallelism(),
        memory: { total_bytes: totalmem(), free_bytes: freemem() },
        disk: { total_bytes: disk.blocks * disk.bsize, free_bytes: disk.bavail * disk.bsize },
        uptime_seconds: Math.floor((clock.now() - context.startedAtMs) / 1000),
        host_uptime_seconds: Math.floor(uptime()),
        engine: engine.connected
          ? {
              connected: true,
              name: engine.info.name,
              version: engine.info.version,
              api_version: engine.info.apiVersion,
              message: null,
              other_writer: otherWriterView(engine.otherWriter),
            }
          : {
              connected: false,
              name: null,
              version: null,
              api_version: null,
              message: engine.message,
              other_writer: null,
            },
        ingress: ingressView(context),
        assistant: { ...control.assistant() },
        companion: { ...control.companion() },
        counts: {
          apps: apps.length,
          apps_ready: apps.filter((app) => isReady(app)).length,
          models: models.length,
          models_ready: models.filter((model) => isModelReady(model)).length,
          models_running: models.filter(({ status }) => status?.phase === "running").length,
          secrets: store.list("Secret").length,
          templates: listTemplates(context).length,
        },
      };
    },
  );

  api.get(
    "/api/system/config",
    {
      config: { access: "read" },
      schema: {
        summary: "The effective configuration, with the source of each value",
        description: "Secrets are redacted.",
        tags: ["system"],
        querystring: NoQuery,
        response: responses({ 200: SystemConfig }),
      },
    },
    async () => ({
      config: config.values.map(({ key, value, source, origin }) => ({
        key,
        value,
        source,
        origin,
      })),
    }),
  );
}

function otherWriterView(writer: EngineWriter | null): SystemInfo["engine"]["other_writer"] {
  return writer && { host: writer.host, data_dir: writer.dataDir, since: writer.since };
}

function ingressView({ ingress, config }: ApiContext): SystemInfo["ingress"] {
  const state = ingress.state();
  const api = ingress.api();
  const isOff = ingress.mode === "off";
  return {
    mode: ingress.mode,
    ready: state.ready,
    version: state.ready ? state.version : null,
    message: state.message,
    http_port: isOff ? null : (config.httpPort ?? null),
    https_port: isOff ? null : (config.httpsPort ?? null),
    api_url: api?.url ?? null,
    api_problem: api?.problem ?? null,
  };
}
