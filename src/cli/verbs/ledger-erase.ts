import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import { BerthError } from "../../base/errors.ts";
import { durationPattern, parseDuration } from "../../base/units.ts";
import type { EraseReport } from "../../client/bus/ledger-client.ts";
import type { SessionBus } from "../../dbus/port.ts";
import type { Cli } from "../cli.ts";
import { declinedError, UsageError } from "../cli-errors.ts";
import { addExamples, isJsonOutput } from "../command-options.ts";
import { canPrompt, confirm } from "../prompt.ts";
import { addCommonOptions, type CommonFlags, countOf, withLedger } from "./ledger-command.ts";

interface EraseFlags extends CommonFlags {
  readonly before: number;
  readonly yes?: boolean;
}

/** Adds `berth ledger erase`. The running companion erases the texts itself, because it alone may write its ledger. */
export function addErase(ledger: Command, cli: Cli): void {
  addExamples(
    addCommonOptions(
      ledger
        .command("erase")
        .summary("erase old sealed texts for good; every proof stays valid")
        .description(
          "Erases the sealed texts of entries that are older than a time: arguments, results, queries. It cannot be undone. The entries and their commitments stay, so that verify and prove give the same results; each erasure is an entry itself. On a terminal it asks first.",
        )
        .requiredOption(
          "--before <when>",
          "a date (2026-01-31, in UTC), a time (2026-01-31T12:00:00Z), or an age (90d)",
          (text) => parseWhen(text, cli.io.now()),
        )
        .option("-y, --yes", "do not ask"),
    ),
    [
      [
        "berth ledger erase --user --before 90d",
        "erase the sealed texts of your companion's ledger that are older than 90 days",
      ],
      ["berth ledger erase --before 2026-01-31 --yes", "erase without asking"],
    ],
  ).action(async (flags: EraseFlags) => {
    await withLedger(cli, flags, async (opened, _, dir) => {
      const before = new Date(flags.before).toISOString();
      const texts = opened.countOldTexts(before);
      if (texts > 0) await confirmErasure(cli, flags, texts, before);
      const report = texts === 0 ? noTexts : await erase(cli, dir, flags.before, before);
      if (!report) return;
      if (isJsonOutput(flags)) return cli.print(JSON.stringify({ v: 1, before, ...report }));
      await cli.print(
        report.texts === 0
          ? `no sealed text is older than ${before}`
          : `erased ${countOf(report.texts, "sealed text")} of the entries ${report.first} to ${report.last}; recorded in ${countOf(report.entries, "entry", "entries")}`,
      );
    });
  });
}

const noTexts: EraseReport = { texts: 0, entries: 0, first: null, last: null };

async function confirmErasure(
  cli: Cli,
  flags: EraseFlags,
  texts: number,
  before: string,
): Promise<void> {
  if (flags.yes === true) return;
  if (!canPrompt(cli))
    throw new UsageError(
      "erase deletes texts for good, and there is no terminal on which to confirm it",
      "add --yes",
    );
  const question = `Erase ${countOf(texts, "sealed text")} older than ${before} for good?`;
  if (!(await confirm(cli, question))) throw declinedError("nothing was erased");
}

/**
 * Erases the sealed texts of entries that are older than `before`, through the companion if it runs. Resolves to
 * undefined if the user has interrupted this.
 */
async function erase(
  cli: Cli,
  dir: string,
  beforeMs: number,
  before: string,
): Promise<EraseReport | undefined> {
  const { eraseOffline } = await import("../../assistant/ledger/offline-erase.ts");
  const report = eraseOffline(dir, beforeMs, cli.io.now());
  if (report) return report;
  const companion = readCompanionPid(dir);
  if (companion === undefined)
    throw new BerthError(
      "wrong_state",
      `the assistant that writes this ledger is running (${dir})`,
      {
        hint: "stop the assistant, then run this command again",
      },
    );
  const { withCompanion } = await import("../companion/connect-companion.ts");
  const { LedgerClient } = await import("../../client/bus/ledger-client.ts");
  let answer: EraseReport | undefined;
  await withCompanion(
    cli,
    async ({ bus }, signal) => {
      if ((await findCompanionPid(bus, signal)) !== companion)
        throw new BerthError(
          "wrong_state",
          `the companion that writes this ledger is not the one on this session bus (${dir})`,
          { hint: "run the command in the session of that companion, or stop it first" },
        );
      answer = await new LedgerClient(bus).eraseTexts(before, signal);
    },
    "interrupted; the companion may still be erasing texts; `berth ledger tail --user --name ledger.erased` shows each finished erasure",
  );
  return answer;
}

/**
 * Reads the companion's process id from a file in its data directory `dir`. Returns undefined if the file does not
 * exist or another program than the companion has written it.
 */
function readCompanionPid(dir: string): number | undefined {
  try {
    const ready: unknown = JSON.parse(readFileSync(join(dir, "run/assistant.json"), "utf8"));
    if (typeof ready !== "object" || ready === null || !("pid" in ready)) return undefined;
    const isCompanion = "instance" in ready && ready.instance === "user";
    return isCompanion && typeof ready.pid === "number" ? ready.pid : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Asks the bus for the process id of the companion. It does not ask the companion itself, because the bus starts a
 * companion that is called while it does not run.
 */
async function findCompanionPid(bus: SessionBus, signal: AbortSignal): Promise<unknown> {
  const call = {
    destination: "org.freedesktop.DBus",
    path: "/org/freedesktop/DBus",
    interface: "org.freedesktop.DBus",
    member: "GetConnectionUnixProcessID",
    signature: "s",
    args: ["dev.assistant.Agent1"],
  };
  const [pid] = await bus.call(call, { signal, timeoutMs: 5_000 }).catch(() => []);
  return pid;
}

/** Parses the value of --before to milliseconds since the epoch. */
function parseWhen(text: string, nowMs: number): number {
  const isAge = new RegExp(durationPattern).test(text);
  const isDate = /^\d{4}-\d{2}-\d{2}$/.test(text);
  const isTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/.test(text);
  const whenMs = isAge
    ? nowMs - parseDuration(text)
    : isDate || isTime
      ? Date.parse(text)
      : Number.NaN;
  if (Number.isNaN(whenMs) || whenMs < 0)
    throw new InvalidArgumentError(
      "write a date as 2026-01-31, a time as 2026-01-31T12:00:00Z, or an age as 90d",
    );
  if (whenMs > nowMs) throw new InvalidArgumentError("it is in the future");
  return whenMs;
}
