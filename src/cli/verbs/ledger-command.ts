import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import type { OfflineLedger } from "../../assistant/ledger/offline-ledger.ts";
import { resolveAssistantDataDir, resolveCompanionDataDir } from "../../base/assistant-paths.ts";
import { BerthError } from "../../base/errors.ts";
import type { SessionBus } from "../../dbus/port.ts";
import type { Cli } from "../cli.ts";
import { formatError } from "../cli-errors.ts";
import { addJsonOptions, isJsonOutput, type JsonFlags } from "../command-options.ts";

/** The options that every subcommand of `berth ledger` has. */
export interface CommonFlags extends JsonFlags {
  readonly key?: string;
  readonly user?: boolean;
}

/** Returns the number with its noun, such as "1 entry" or "2 entries". */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

const NOT_FOUND_EXIT_CODE = 5;

/** Reports that the ledger does not contain what the user asked for, which does not mean that the ledger is damaged. */
export async function reportNotFound(cli: Cli, flags: CommonFlags, message: string): Promise<void> {
  cli.exitCode = NOT_FOUND_EXIT_CODE;
  if (isJsonOutput(flags))
    await cli.print(JSON.stringify({ v: 1, status: "not_found", reason: message }, null, 2));
  const shown = new BerthError("not_found", message);
  cli.io.writeError(formatError(shown, cli.errorColours, cli.globals.verbose === true));
}

export function addCommonOptions(command: Command): Command {
  return addJsonOptions(
    command
      .option("--user", "use the ledger of your companion (`berth assistant --user`)")
      .option("--key <file>", "public key to trust, instead of the one stored with the ledger"),
    "print JSON",
  );
}

/**
 * Returns the data directory of the ledger. With --user it is the companion's directory. Otherwise it is the
 * assistant's directory: the one of --data-dir, which may also be a server's data directory; without it, the one of the
 * server that the command line talks to, or the default one.
 */
async function findLedgerDir(cli: Cli, flags: CommonFlags): Promise<string> {
  const { environment, workingDirectory } = cli.io;
  const flag = cli.globals.dataDir;
  if (flags.user === true) return resolveCompanionDataDir({ flag, environment, workingDirectory });
  const usual = resolveAssistantDataDir({ flag, environment, workingDirectory });
  const isAssistant = flag !== undefined && existsSync(join(usual, "ledger"));
  const isGiven = flag === undefined && Boolean(environment["BERTH_ASSISTANT_DATA_DIR"]);
  if (isAssistant || isGiven) return usual;
  const { findServerAssistant } = await import("../server-assistant.ts");
  const served = (await findServerAssistant(cli))?.dataDir;
  if (served != null) return served;
  const { loadConfig } = await import("../../config/config.ts");
  const flagsOfServer = { data_dir: flag, config: cli.globals.config };
  const config = loadConfig({ flags: flagsOfServer, environment, workingDirectory });
  const configured = config.assistant?.dataDir;
  return configured !== undefined && existsSync(join(configured, "ledger")) ? configured : usual;
}

type OfflineModule = typeof import("../../assistant/ledger/offline-ledger.ts");

/**
 * Opens the ledger's files and calls `work` with them. If the ledger cannot be opened or read, prints the error and
 * sets the exit code of this error.
 */
export async function withLedger(
  cli: Cli,
  flags: CommonFlags,
  work: (ledger: OfflineLedger, offline: OfflineModule, dir: string) => Promise<void>,
): Promise<void> {
  const { workingDirectory } = cli.io;
  const dir = await findLedgerDir(cli, flags);
  const offline = await import("../../assistant/ledger/offline-ledger.ts");
  try {
    const key =
      flags.key === undefined
        ? undefined
        : offline.readTextFile(resolve(workingDirectory, flags.key), "the public key");
    using opened = offline.OfflineLedger.open(dir, key);
    await work(opened, offline, dir);
  } catch (error) {
    const failure = offline.toOfflineFailure(error);
    if (!failure) throw error;
    const { status, message, hint } = failure;
    cli.exitCode = { tampered: 1, rolled_back: 2, unreadable: 3, key: 4 }[status];
    if (isJsonOutput(flags))
      await cli.print(JSON.stringify({ v: 1, status, reason: message }, null, 2));
    const shown = new BerthError("internal", `${message} (${dir})`, { hint });
    cli.io.writeError(formatError(shown, cli.errorColours, cli.globals.verbose === true));
  }
}

/**
 * Reads the key with which the ledger's texts are encrypted. If the key is in the keyring, reads it from there through
 * the session bus.
 */
export async function unlockLedgerTexts(
  cli: Cli,
  ledger: OfflineLedger,
  dir: string,
): Promise<void> {
  const source = ledger.textKeySource;
  if (source === undefined) return;
  const { unlockTexts } = await import("../../assistant/ledger/offline-texts.ts");
  const { environment } = cli.io;
  const { signal } = new AbortController();
  await using sessionBus =
    source === "secret-service" ? await openKeyringBus(cli, signal) : undefined;
  await unlockTexts(ledger, { dir, environment, sessionBus }, signal);
}

async function openKeyringBus(cli: Cli, signal: AbortSignal): Promise<SessionBus | undefined> {
  const { sessionBusAddress } = await import("../../dbus/session-bus-address.ts");
  const address = sessionBusAddress(cli.io.environment);
  return address === undefined
    ? undefined
    : cli.io.openSessionBus(address, signal, false).catch(() => undefined);
}
