import { randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Type } from "typebox";
import { timestamp } from "../../base/clock.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { EmptyBody, NoQuery, responses, unserialized } from "../route-schemas.ts";

export function backupRoutes(api: Api, context: ApiContext): void {
  const { store, clock, config, logger } = context;

  // A backup is copied to the data directory before it is sent, because it may be too large for a temporary folder in
  // memory.
  const folder = join(config.dataDir, "tmp");

  // A killed process may have left backup files, which contain every secret, so they are removed at the start.
  api.addHook("onReady", async () => {
    const files = await readdir(folder).catch(() => []);
    const left = files.filter((file) => file.startsWith("backup-"));
    await Promise.all(left.map((file) => rm(join(folder, file), { force: true })));
  });

  api.post(
    "/api/backup",
    {
      config: { access: "admin", isStream: true },
      schema: {
        summary: "A backup of the server",
        description:
          "A file for `berth restore`, as application/octet-stream: the store, the source archives in use, the certificates, and a manifest that also lists what is left out. It contains every secret: protect it like a password.",
        tags: ["system"],
        body: EmptyBody,
        querystring: NoQuery,
        produces: ["application/octet-stream"],
        response: responses({ 200: unserialized(Type.String({ format: "binary" })) }),
      },
    },
    async (request, reply) => {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const file = join(folder, `backup-${randomBytes(8).toString("hex")}.db`);
      const remove = () =>
        rm(file, { force: true }).catch((err: unknown) =>
          logger.warn({ err }, "cannot remove the temporary file of a backup"),
        );
      try {
        await store.backup(file);
        const { size } = await stat(file);
        const stream = createReadStream(file);
        stream.once("close", () => void remove());
        reply.raw.once("close", () => stream.destroy());
        logger.info({ actor: request.caller?.name, bytes: size }, "backed up the store");
        const day = timestamp(clock.now()).slice(0, 10);
        return reply
          .header("content-type", "application/octet-stream")
          .header("content-length", String(size))
          .header("content-disposition", `attachment; filename="berth-${day}.backup"`)
          .header("cache-control", "no-store")
          .send(stream);
      } catch (error) {
        await remove();
        throw error;
      }
    },
  );
}
