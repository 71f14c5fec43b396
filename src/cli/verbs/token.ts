import { type Command, Option } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples, type OutputFormat, outputOption } from "../command-options.ts";
import { formatAge, formatTime } from "../format-time.ts";
import { createListing, printDocument, printListing } from "../output/print.ts";

export function addToken(program: Command, cli: Cli): void {
  const token = addExamples(
    program
      .command("token")
      .helpCommand(false)
      .summary("create and revoke access tokens")
      .description("Manages named access tokens for scripts, dashboards and other users."),
    [
      ["berth token create ci --scope write --expires-in 90d", "create a token for a script"],
      ["berth token ls", "list every token and session"],
      ["berth token revoke ci", "revoke a token"],
    ],
  );
  addExamples(
    token
      .command("create")
      .summary("create a token, and print it once")
      .argument("<token>", "name of the token")
      .addOption(
        new Option("--scope <scope>", "permissions of the token")
          .choices(["read", "write", "admin"])
          .default("read"),
      )
      .option("--expires-in <duration>", "lifetime, such as 24h or 90d; default: no limit")
      .addOption(new Option("-o, --output <format>", "output format").choices(["json", "yaml"])),
    [["TOKEN=$(berth token create ci --scope write)", "save the token in a variable"]],
  ).action(
    async (
      name: string,
      flags: { scope: "read" | "write" | "admin"; expiresIn?: string; output?: "json" | "yaml" },
    ) => {
      const created = await (await cli.connect()).auth.createToken({
        name,
        scope: flags.scope,
        ...(flags.expiresIn === undefined ? {} : { expires_in: flags.expiresIn }),
      });
      if (flags.output !== undefined) return printDocument(cli, created, flags.output);
      // Only the token is written to standard output, so that $(...) captures nothing else.
      await cli.print(created.token);
      const until =
        created.expires_at === null
          ? "without expiry"
          : `until ${formatTime(created.expires_at, cli.io.now())}`;
      cli.note(
        cli.errorColours.dim(
          `token ${name} with scope ${created.scope}, ${until}. It is shown only this once.`,
        ),
      );
    },
  );
  token
    .command("ls", { isDefault: true })
    .alias("list")
    .summary("list tokens and sessions")
    .addOption(outputOption())
    .action(async (flags: { output?: OutputFormat }) => {
      const { tokens } = await (await cli.connect()).auth.tokens();
      const now = cli.io.now();
      await printListing(
        cli,
        createListing({
          rows: tokens,
          columns: [
            { header: "NAME", value: (row) => row.name },
            { header: "KIND", value: (row) => row.kind },
            { header: "SCOPE", value: (row) => row.scope },
            { header: "AGE", value: (row) => formatAge(row.created_at, now) },
            {
              header: "LAST USED",
              value: (row) =>
                row.last_used_at === null ? "never" : `${formatAge(row.last_used_at, now)} ago`,
            },
            {
              header: "EXPIRES",
              value: (row) => (row.expires_at === null ? "never" : formatTime(row.expires_at, now)),
            },
          ],
          wideColumns: [{ header: "ID", value: (row) => row.id }],
          name: (row) => row.name,
          document: { tokens, total: tokens.length },
          empty: "no tokens",
        }),
        flags.output,
      );
    });
  token
    .command("revoke")
    .alias("rm")
    .summary("revoke a token")
    .argument("<token>", "name or id of the token")
    .action(async (name: string) => {
      await (await cli.connect()).auth.revokeToken(name);
      await cli.print(`token ${name} revoked`);
    });
}
