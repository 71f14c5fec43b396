import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { COMPANION_UNIT } from "../../../base/companion-names.ts";
import { packageRoot } from "../../../base/package-root.ts";
import type { Cli } from "../../cli.ts";
import { callSessionBus } from "./call-session-bus.ts";
import { resolveInstallPaths } from "./install-paths.ts";
import {
  assertNotForeign,
  removeOwnedFile,
  type WriteOutcome,
  writeOwnedFile,
} from "./owned-files.ts";
import { stopCompanion } from "./stop-companion.ts";
import { formatBusService, formatUnit, parseExecStart } from "./unit-and-service-files.ts";
import { runUserSystemctl } from "./user-systemctl.ts";

/** Options of the installation. `flags` are those of `berth assistant --user`. */
export interface InstallOptions {
  readonly flags: readonly string[];
  /** If true, the user's systemd starts the companion now and at each login. */
  readonly shouldStart: boolean;
}

/**
 * Writes the user's unit and bus services, and reloads systemd. A second call with the same options leaves the files
 * unchanged.
 */
export async function installCompanion(
  cli: Cli,
  { flags, shouldStart: starts }: InstallOptions,
): Promise<void> {
  const { environment } = cli.io;
  const paths = resolveInstallPaths(environment);
  const files = [paths.unit, ...paths.services.map(({ file }) => file)];
  // All files are checked before the first is written.
  for (const file of files) await assertNotForeign(file);
  const argv = [process.execPath, berthProgram, "assistant", "--user", ...flags];
  const written: WriteOutcome[] = [await writeOwnedFile(paths.unit, formatUnit(argv))];
  for (const { name, file } of paths.services)
    written.push(await writeOwnedFile(file, formatBusService(name, argv)));
  // The bus reloads its service files, because not every bus notices new files in their folders; a bus that starts
  // later reads them anyway. The reload precedes the start of the unit, because `berth up` stops its own companion as
  // soon as the bus can activate the installed one.
  await callSessionBus(cli.io, "ReloadConfig");
  const isNew = written.some((what) => what !== "same");
  await cli.print(`${isNew ? "wrote" : "unchanged:"} ${paths.unit}`);
  await cli.print(
    `${isNew ? "wrote" : "unchanged:"} ${paths.services.length} services of the session bus next to ${paths.services[0]?.file ?? ""}`,
  );
  if (/[/\\](_npx|\.npm)[/\\]/.test(berthProgram))
    cli.note(
      "this copy of Berth is in a cache of npm, which may be deleted: install Berth permanently, and run this command again from there",
    );
  if (!starts) {
    await cli.print("the first call on the session bus starts it");
    return;
  }
  await startUnit(cli, isNew);
}

/** Ends the companion and deletes the files of the installation, but not the data of the companion. */
export async function uninstallCompanion(cli: Cli): Promise<void> {
  const { environment } = cli.io;
  const paths = resolveInstallPaths(environment);
  const unit = await readFile(paths.unit, "utf8").catch(() => "");
  // The unit is disabled before its file is deleted, because systemd must still know it to stop the daemon.
  await runUserSystemctl(["disable", "--now", COMPANION_UNIT], environment);
  let removed = 0;
  for (const file of [...paths.services.map((service) => service.file), paths.unit]) {
    if (await removeOwnedFile(file)) removed++;
  }
  await runUserSystemctl(["daemon-reload"], environment);
  await callSessionBus(cli.io, "ReloadConfig");
  // The companion is ended only after the bus has forgotten its services: before that, a call would start
  // it again.
  if (removed > 0 && (await stopCompanion(cli.io, parseExecStart(unit) ?? [])))
    await cli.print("stopped the companion that the session bus had started");
  await cli.print(
    removed === 0
      ? "the companion is not installed"
      : `removed ${removed} files; ledger, keys, memory and settings are unchanged`,
  );
}

async function startUnit(cli: Cli, isNew: boolean): Promise<void> {
  const { environment } = cli.io;
  const reloaded = await runUserSystemctl(["daemon-reload"], environment);
  if (reloaded.kind === "absent") {
    await cli.print(
      "no systemd runs for this user: the first call on the session bus starts the companion",
    );
    return;
  }
  const steps = [
    ["enable", COMPANION_UNIT],
    // A running companion is restarted with the new files.
    [isNew ? "restart" : "start", COMPANION_UNIT],
  ];
  for (const step of steps) {
    const answer = await runUserSystemctl(step, environment);
    if (answer.kind === "done") continue;
    cli.note(
      `systemctl --user ${step.join(" ")} failed: ${answer.message}\nsee: journalctl --user -u ${COMPANION_UNIT}`,
    );
    cli.exitCode = 1;
    return;
  }
  await cli.print(`${COMPANION_UNIT} is running and starts at each login`);
}

const berthProgram = join(packageRoot, "bin/berth");
