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
      .summary("let programs and people in, with tokens")
      .description("Named tokens that last: for scripts, dashboards and other people."),
    [
      ["berth token create ci --scope write --expires-in 90d", "a token for a script"],
      ["berth token ls", "every token and session"],
      ["berth token revoke ci", "end it"],
    ],
  );
  addExamples(
    token
      .command("create")
      .summary("make a token, and print it once")
      .argument("<token>", "name of the token")
      .addOption(
        new Option("--scope <scope>", "what it may do")
          .choices(["read", "write", "admin"])
          .default("read"),
      )
      .option("--expires-in <duration>", "such as 24h or 90d; default: never")
      .addOption(
        new Option("-o, --output <format>", "print in another form").choices(["json", "yaml"]),
      ),
    [["TOKEN=$(berth token create ci --scope write)", "keep it in a variable"]],
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
      // The token alone on standard output, so that $(...) takes just it.
      await cli.print(created.token);
      const until =
        created.expires_at === null
          ? "without an end"
          : `until ${formatTime(created.expires_at, cli.io.now())}`;
      cli.note(
        cli.errorColours.dim(
          `token ${name} with scope ${created.scope}, ${until}. It is shown this once only.`,
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
    .summary("end a token")
    .argument("<token>", "name or id")
    .action(async (name: string) => {
      await (await cli.connect()).auth.revokeToken(name);
      await cli.print(`token ${name} revoked`);
    });
}
