/**
 * The fields `keywords` and `examples` of Berth's own tools, which only tool discovery reads. They are the words of
 * people who ask for the tool, not those of its description.
 */
export const berthSearchTexts = {
  list_apps: {
    keywords: [
      "overview",
      "services",
      "websites",
      "running",
      "status",
      "up",
      "down",
      "online",
      "installed",
      "url",
      "how many",
    ],
    examples: [
      "which apps are on my server",
      "what is running",
      "are all apps up",
      "show me the address of my app",
      "what did I install",
    ],
  },
  describe_app: {
    keywords: [
      "details",
      "problem",
      "error",
      "broken",
      "wrong",
      "fails",
      "crash",
      "health",
      "healthy",
      "version",
      "settings",
      "why",
    ],
    examples: [
      "what is wrong with my app",
      "why does the shop not start",
      "is the blog healthy",
      "which version of the api is running",
      "show me the settings of the app",
    ],
  },
  app_logs: {
    keywords: [
      "logs",
      "output",
      "errors",
      "exceptions",
      "messages",
      "console",
      "stack trace",
      "debug",
      "printed",
    ],
    examples: [
      "show the log of the shop",
      "which errors did the api print",
      "what happened in the app at noon",
      "tail the log",
    ],
  },
  deploy_app: {
    keywords: [
      "install",
      "host",
      "publish",
      "release",
      "ship",
      "update",
      "upgrade",
      "roll out",
      "put on the server",
      "new version",
      "container",
      "repository",
    ],
    examples: [
      "install a wiki on my server",
      "deploy nginx 1.27",
      "update the shop to the newest version",
      "host my repository",
      "put my site online",
    ],
  },
  start_app: {
    keywords: ["turn on", "switch on", "boot", "bring up", "resume", "launch", "online"],
    examples: ["start the wiki", "bring the blog up again", "turn the app on"],
  },
  stop_app: {
    keywords: ["turn off", "switch off", "shut down", "take offline", "halt", "pause", "take down"],
    examples: ["stop the shop", "take the site offline", "shut the api down for the night"],
  },
  restart_app: {
    keywords: ["reboot", "reload", "relaunch", "bounce", "hangs", "stuck", "frozen", "recreate"],
    examples: ["restart the blog", "the shop hangs so restart it", "turn the app off and on again"],
  },
  rollback_app: {
    keywords: [
      "revert",
      "undo",
      "previous",
      "earlier",
      "old version",
      "last release",
      "downgrade",
      "bad update",
    ],
    examples: [
      "go back to the version before",
      "undo the last deployment",
      "the new release is broken so take the old one",
    ],
  },
  delete_app: {
    keywords: ["remove", "uninstall", "destroy", "get rid of", "tear down", "no longer needed"],
    examples: [
      "remove the test app from the server",
      "uninstall the wiki",
      "I do not need this app any more",
    ],
  },
  set_app_running: { keywords: ["on", "off", "state"], examples: ["set the app back to running"] },
  restore_app: {
    keywords: ["undo", "revert", "bring back", "deleted"],
    examples: ["undo that change of the app", "bring back the deleted app"],
  },
} as const;
