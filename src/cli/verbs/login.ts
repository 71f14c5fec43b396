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
        "Logs in to a server and remembers it, so that the other verbs talk to it. On the machine of the server, its own user needs no login.",
      )
      .argument("[url]", "address of the server, such as https://berth.example.org")
      .option("--password-stdin", "read the password from standard input")
      .option("--token-stdin", "read a token instead, as `berth token create` prints it"),
    [
      ["berth login https://berth.example.org", "asks for the password"],
      ["berth login http://10.0.0.2:7776 --password-stdin < password.txt", "in a script"],
    ],
  ).action(async (url: string | undefined, flags: LoginFlags) => {
    const { logIn } = await import("../login.ts");
    await logIn(cli, url, flags);
  });

  addExamples(
    program
      .command("logout")
      .summary("end a login, and forget it")
      .argument("[url]", "address of the server; default: the one logged in to last"),
    [["berth logout", "end the login"]],
  ).action(async (url: string | undefined) => {
    const { logOut } = await import("../login.ts");
    await logOut(cli, url);
  });
}
