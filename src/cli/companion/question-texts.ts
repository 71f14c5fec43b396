/** The questions that the command line asks during an answer or a call. An answer must not imitate them. */
export const questionTexts = {
  consent: "Send it, this once? [y/N] ",
  call: "Run it? [y/N] ",
  destructiveCall: "Type the tool's name to run it, or press Enter to decline: ",
} as const;
