import { resolve } from "node:path";
import type { Command } from "commander";
import type { OfflineLedger, TailEntry } from "../../assistant/ledger/offline-ledger.ts";
import type { Cli } from "../cli.ts";
import { addExamples, collectValues, integerBetween, isJsonOutput } from "../command-options.ts";
import { formatTime } from "../format-time.ts";
import {
  addCommonOptions,
  type CommonFlags,
  countOf,
  reportNotFound,
  unlockLedgerTexts,
  withLedger,
} from "./ledger-command.ts";
import { addErase } from "./ledger-erase.ts";

type Verdict = ReturnType<OfflineLedger["verify"]>;

const SEQ_MAX = 2 ** 40;

/** Adds the verb `ledger`. It reads the ledger's files, with or without a running daemon. */
export function addLedger(program: Command, cli: Cli): void {
  const ledger = addExamples(
    program
      .command("ledger")
      .helpCommand(false)
      .summary("read and verify the assistant's record of its actions, and erase old texts")
      .description(
        "Reads and verifies the ledger of the assistant of the server on this machine, with or without a running daemon; with --user that of your companion. --data-dir is the data directory of the assistant, of its server, or of the companion (also BERTH_ASSISTANT_DATA_DIR). Exit codes: 0 whole, 1 tampered with, 2 rolled back or forked, 3 unreadable, 4 key missing or wrong, 5 no such entry.",
      ),
    [
      ["berth ledger verify", "verify every entry, hash, signature and sealed text"],
      ["berth ledger verify --against kept.txt", "compare with an earlier checkpoint, too"],
      ["berth ledger tail --name inference.generate", "show the last requests"],
    ],
  );
  addVerify(ledger, cli);
  addProve(ledger, cli);
  addTail(ledger, cli);
  addExport(ledger, cli);
  addCheckpoint(ledger, cli);
  addErase(ledger, cli);
}

function addVerify(ledger: Command, cli: Cli): void {
  addExamples(
    addCommonOptions(
      ledger
        .command("verify")
        .summary("check that no entry was changed, removed or rolled back")
        .description(
          "Reads every entry and checks its hash, its position, its sealed text and the signed checkpoints, and that the ledger continues from its stored checkpoint. Names the first bad entry.",
        )
        .option(
          "--against <file>",
          "a checkpoint that was kept elsewhere; can be repeated",
          collectValues,
        ),
    ),
    [
      ["berth ledger verify --json", "print the result as JSON"],
      ["berth ledger verify --data-dir /srv/assistant", "verify another assistant's ledger"],
    ],
  ).action(async (flags: CommonFlags & { against?: string[] }) => {
    await withLedger(cli, flags, async (opened, { readTextFile }, dir) => {
      const against = (flags.against ?? []).map((file) =>
        readTextFile(resolve(cli.io.workingDirectory, file), "the checkpoint to compare with"),
      );
      await unlockLedgerTexts(cli, opened, dir);
      const verdict = opened.verify(against);
      cli.exitCode = { whole: 0, tampered: 1, rolled_back: 2, key: 4 }[verdict.status];
      await cli.print(
        isJsonOutput(flags)
          ? JSON.stringify({ ...createVerdictDocument(verdict), data_dir: dir }, null, 2)
          : formatVerdict(verdict, dir),
      );
    });
  });
}

function createVerdictDocument(verdict: Verdict): Record<string, unknown> {
  const { firstBad, uncheckedReason, ...others } = verdict;
  return { v: 1, ...others, unchecked_reason: uncheckedReason, first_bad: firstBad ?? null };
}

function formatVerdict(verdict: Verdict, dir: string): string {
  const { status, size, sealed, erased, checkpoints, root, origin, problems } = verdict;
  if (status === "whole")
    return [
      `whole: ${countOf(size, "entry", "entries")}, ${countOf(sealed, "sealed text")}, ${erased} erased, ${countOf(checkpoints, "checkpoint")}`,
      ...(verdict.unchecked === 0
        ? []
        : [`texts  ${verdict.unchecked} not checked: ${verdict.uncheckedReason}`]),
      `root   ${root}`,
      `origin ${origin}`,
      `ledger ${dir}`,
    ].join("\n");
  const words = { tampered: "tampered", rolled_back: "rolled back or forked", key: "key" }[status];
  const others = problems.slice(1).map(({ message }) => `  also: ${message}`);
  return [`${words}: ${verdict.reason}`, ...others].join("\n");
}

function addProve(ledger: Command, cli: Cli): void {
  addExamples(
    addCommonOptions(
      ledger
        .command("prove")
        .summary("prove that an entry is in the ledger")
        .description(
          "Prints a proof that can be verified without the ledger: the index of the entry, the hashes between the entry and the root, and a signed checkpoint, in the format c2sp.org/tlog-proof. With --json it also prints the entry.",
        )
        .argument("<seq>", "number of the entry", integerBetween(0, SEQ_MAX)),
    ),
    [["berth ledger prove 41 > entry-41.tlog-proof", "save the proof of entry 41"]],
  ).action(async (seq: number, flags: CommonFlags) => {
    await withLedger(cli, flags, async (opened) => {
      const proof = opened.proveInclusion(seq);
      if (!proof) return reportNotFound(cli, flags, `the ledger has no entry ${seq}`);
      const path = proof.path.map((hash) => hash.toString("base64"));
      const { body, leaf, size, checkpoint } = proof;
      await cli.print(
        isJsonOutput(flags)
          ? JSON.stringify({ v: 1, seq, leaf, body, size, path, checkpoint }, null, 2)
          : ["c2sp.org/tlog-proof@v1", `index ${seq}`, ...path, "", checkpoint].join("\n"),
      );
    });
  });
}

function addTail(ledger: Command, cli: Cli): void {
  addExamples(
    addCommonOptions(
      ledger
        .command("tail")
        .summary("show the last entries")
        .description("Shows the last entries, oldest first, without verifying them.")
        .option("-n, --limit <count>", "number of entries", integerBetween(1, 100_000), 20)
        .option("--name <name>", "show only entries of this name, such as inference.generate")
        .option("--sealed", "also show the sealed texts of the entries, unless they are erased"),
    ),
    [["berth ledger tail -n 5 --sealed", "show the last five entries, with their sealed texts"]],
  ).action(async (flags: CommonFlags & { limit: number; name?: string; sealed?: boolean }) => {
    await withLedger(cli, flags, async (opened, _, dir) => {
      if (flags.sealed === true) await unlockLedgerTexts(cli, opened, dir);
      const entries = opened.tail(flags.limit, flags.name);
      const isJson = isJsonOutput(flags);
      const line = (entry: TailEntry) =>
        formatTailEntry(entry, flags.sealed === true, cli.io.now());
      const document = (entry: TailEntry) => createTailDocument(entry, flags.sealed === true);
      if (entries.length === 0) cli.note("no entries");
      for (const entry of entries)
        await cli.print(isJson ? JSON.stringify(document(entry)) : line(entry));
    });
  });
}

function formatTailEntry(
  { body, plain, lockedBecause }: TailEntry,
  withSealed: boolean,
  nowMs: number,
): string {
  const time = formatTime(body.time, nowMs);
  const first = `${body.seq}  ${time}  ${body.name}  ${formatEntryFields(body.fields)}`.trimEnd();
  if (!withSealed || body.sealed === undefined) return first;
  const reason = lockedBecause === undefined ? "(erased)" : `(encrypted: ${lockedBecause})`;
  return `${first}\n    ${plain ?? reason}`;
}

/** Formats fields as `model=tiny priority=interactive`, and writes a value as JSON unless it is a single word. */
function formatEntryFields(fields: TailEntry["body"]["fields"]): string {
  return Object.entries(fields)
    .map(([name, value]) => {
      const isPlain = typeof value === "string" && /^[^\s"]+$/.test(value);
      return `${name}=${isPlain ? value : JSON.stringify(value)}`;
    })
    .join(" ");
}

function createTailDocument({ body, leaf, plain, lockedBecause }: TailEntry, withSealed: boolean) {
  if (!withSealed) return { ...body, leaf };
  if (lockedBecause !== undefined) return { ...body, leaf, sealed_text_locked: lockedBecause };
  if (plain === undefined) return { ...body, leaf };
  const sealedText: unknown = JSON.parse(plain);
  return { ...body, leaf, sealed_text: sealedText };
}

function addExport(ledger: Command, cli: Cli): void {
  addExamples(
    addCommonOptions(
      ledger
        .command("export")
        .summary("export the ledger as tiles that other tools can verify")
        .description(
          "Writes the checkpoint, hashes and entries into an empty folder, in the layout c2sp.org/tlog-tiles. Sealed texts are not exported.",
        )
        .argument("<dir>", "folder that is empty, or does not exist yet"),
    ),
    [["berth ledger export ./ledger-tiles", "export to a folder that a web server can serve"]],
  ).action(async (dir: string, flags: CommonFlags) => {
    await withLedger(cli, flags, async (opened) => {
      const { size, files } = opened.export(resolve(cli.io.workingDirectory, dir));
      await cli.print(
        isJsonOutput(flags)
          ? JSON.stringify({ v: 1, size, files })
          : `${dir}: ${countOf(size, "entry", "entries")} in ${files} files`,
      );
    });
  });
}

function addCheckpoint(ledger: Command, cli: Cli): void {
  addExamples(
    addCommonOptions(
      ledger
        .command("checkpoint")
        .summary("print the newest signed checkpoint, to keep elsewhere")
        .description(
          "Prints the signed size and root of the ledger. If you keep this output on another machine, you can check later that the ledger still contains its present entries. With --from SIZE it also prints, as JSON, a proof that the ledger has only grown since it had that size.",
        )
        .option("--from <size>", "earlier size of the ledger", integerBetween(0, SEQ_MAX)),
    ),
    [
      [
        "berth ledger checkpoint > kept.txt",
        "save the checkpoint, for a later berth ledger verify --against kept.txt",
      ],
    ],
  ).action(async (flags: CommonFlags & { from?: number }) => {
    await withLedger(cli, flags, async (opened) => {
      const { note, size, origin, root } = opened.readCheckpoint();
      if (flags.from === undefined) {
        const document = { v: 1, origin, size, root: root.toString("base64"), checkpoint: note };
        await cli.print(isJsonOutput(flags) ? JSON.stringify(document, null, 2) : note);
        return;
      }
      const proof = opened.proveConsistency(flags.from);
      if (!proof) {
        const message = `the ledger has only ${countOf(size, "entry", "entries")}, fewer than ${flags.from}`;
        return reportNotFound(cli, flags, message);
      }
      const path = proof.path.map((hash) => hash.toString("base64"));
      const { checkpoint } = proof;
      const document = { v: 1, from: flags.from, size: proof.size, path, checkpoint };
      await cli.print(JSON.stringify(document, null, 2));
    });
  });
}
