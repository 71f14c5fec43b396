import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-options.ts";
import type { LoginFlags } from "../login.ts";

export function addLogin(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("login")
      .summary("log in to a server elsewhere")
      .description(
        "Logs in to a server and saves the login, so that the other verbs use that server. The user who runs a server needs no login on the server's own machine.",
      )
      .argument("[url]", "address of the server, such as https://berth.example.org")
      .option("--password-stdin", "read the password from standard input")
      .option("--token-stdin", "read a token of `berth token create` from standard input"),
    [
      ["berth login https://berth.example.org", "ask for the password, and log in"],
      ["berth login http://10.0.0.2:7776 --password-stdin < password.txt", "log in from a script"],
    ],
  ).action(async (url: string | undefined, flags: LoginFlags) => {
    const { logIn } = await import("../login.ts");
    await logIn(cli, url, flags);
  });

  addExamples(
    program
      .command("logout")
      .summary("end and forget a login")
      .argument("[url]", "address of the server; default: that of the last login"),
    [["berth logout", "end the last login"]],
  ).action(async (url: string | undefined) => {
    const { logOut } = await import("../login.ts");
    await logOut(cli, url);
  });
}
