import { join } from "node:path";
import { COMPANION_UNIT } from "../../../base/companion-names.ts";
import type { Cli } from "../../cli.ts";
import { resolveInstallPaths } from "./install-paths.ts";
import {
  assertNotForeign,
  removeOwnedFile,
  type WriteOutcome,
  writeOwnedFile,
} from "./owned-files.ts";
import { reloadBus } from "./reload-bus.ts";
import { formatBusService, formatUnit } from "./unit-and-service-files.ts";
import { runUserSystemctl } from "./user-systemctl.ts";

/** What the daemon is to be started with, as flags of `berth assistant --user`. */
export interface InstallOptions {
  readonly flags: readonly string[];
  /** Whether the user's systemd is told to start it now, and at each login. */
  readonly shouldStart: boolean;
}

/** Writes the unit and the services of this user, and has systemd take them up. Can be done again at any time. */
export async function installCompanion(
  cli: Cli,
  { flags, shouldStart: starts }: InstallOptions,
): Promise<void> {
  const { environment } = cli.io;
  const paths = resolveInstallPaths(environment);
  const files = [paths.unit, ...paths.services.map(({ file }) => file)];
  // Before the first is written: half an installation is none.
  for (const file of files) await assertNotForeign(file);
  const argv = [process.execPath, berthProgram, "assistant", "--user", ...flags];
  const written: WriteOutcome[] = [await writeOwnedFile(paths.unit, formatUnit(argv))];
  for (const { name, file } of paths.services)
    written.push(await writeOwnedFile(file, formatBusService(name, argv)));
  // First of all: a companion that `berth up` has started makes way then.
  await reloadBus(cli.io);
  const isNew = written.some((what) => what !== "same");
  await cli.print(`${isNew ? "wrote" : "nothing new in"} ${paths.unit}`);
  await cli.print(
    `${isNew ? "wrote" : "nothing new in"} ${paths.services.length} services of the session bus beside ${paths.services[0]?.file ?? ""}`,
  );
  if (/[/\\](_npx|\.npm)[/\\]/.test(berthProgram))
    cli.note(
      "this copy of Berth lies in a cache of npm, and may be gone one day: install Berth in a place of its own, and run this again from there",
    );
  if (!starts) {
    await cli.print("whoever calls one of its names on the session bus starts it");
    return;
  }
  await startUnit(cli, isNew);
}

/** Takes away what the installation wrote. What the companion keeps stays. */
export async function uninstallCompanion(cli: Cli): Promise<void> {
  const { environment } = cli.io;
  const paths = resolveInstallPaths(environment);
  // While the unit is still known: systemd ends what it has started.
  await runUserSystemctl(["disable", "--now", COMPANION_UNIT], environment);
  let removed = 0;
  for (const file of [...paths.services.map((service) => service.file), paths.unit]) {
    if (await removeOwnedFile(file)) removed++;
  }
  await runUserSystemctl(["daemon-reload"], environment);
  await reloadBus(cli.io);
  await cli.print(
    removed === 0
      ? "the companion is not installed"
      : `removed ${removed} files; ledger, keys, memory and settings are as they were`,
  );
}

async function startUnit(cli: Cli, isNew: boolean): Promise<void> {
  const { environment } = cli.io;
  const reloaded = await runUserSystemctl(["daemon-reload"], environment);
  if (reloaded.kind === "absent") {
    await cli.print(
      "no systemd runs for this user: whoever calls one of its names on the session bus starts it",
    );
    return;
  }
  const steps = [
    ["enable", COMPANION_UNIT],
    // Also one that runs already takes up what is new.
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
  await cli.print(`${COMPANION_UNIT} runs, and is started at each login`);
}

const berthProgram = join(import.meta.dirname, "../../../../bin/berth");
