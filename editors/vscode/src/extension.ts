// The extension: starts the language server, and offers what a server cannot: pages, a picker, verified runs.

import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, type Middleware, type ServerOptions, vsdiag } from "vscode-languageclient/node";
import { t4lint } from "./command";
import { offerInstall } from "./install";
import { configured, type Found, findInterpreter, onChosen } from "./interpreter";
import { Pages } from "./pages";
import { type Finding, Verdicts } from "./verdicts";

const PROJECT = "What the settings of the project say"; // of the targets
const LANGUAGES = ["python", "shellscript", "yaml", "json", "dockerfile", "makefile"];

let client: LanguageClient | undefined;
let found: Found | undefined;
let log: vscode.LogOutputChannel;
let status: vscode.StatusBarItem;
let pages: Pages;
let verdicts: Verdicts;
let memory: vscode.Memento;
/** Starts and stops of the server, one after the other. */
let turn: Promise<void> = Promise.resolve();

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  log = vscode.window.createOutputChannel("t4lint", { log: true });
  status = vscode.window.createStatusBarItem("t4lint.target", vscode.StatusBarAlignment.Right, 90);
  status.name = "t4lint target";
  pages = new Pages();
  verdicts = new Verdicts();
  memory = context.workspaceState;
  context.subscriptions.push(log, status, pages, verdicts);
  const register = (name: string, run: (...args: never[]) => unknown) =>
    context.subscriptions.push(vscode.commands.registerCommand(name, run));
  register("t4lint.restart", () => restart());
  register("t4lint.install", () => restart(true));
  register("t4lint.chooseInterpreter", openSetting);
  register("t4lint.showLog", () => log.show());
  register("t4lint.showPage", showPage);
  register("t4lint.explainRule", explainRule);
  register("t4lint.selectTarget", selectTarget);
  register("t4lint.checkWorkspace", checkWorkspace);
  register("t4lint.fixAll", fixAll);
  register("t4lint.fit", fit);
  register("t4lint.verify", () => verify());
  register("t4lint.verifyPhantom", () => verify("phantom"));
  register("t4lint.clearVerdicts", () => verdicts.clear());
  context.subscriptions.push(
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("t4lint.interpreter") || event.affectsConfiguration("t4lint.enable")) {
        void restart();
      } else if (event.affectsConfiguration("t4lint")) {
        showStatus();
      }
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => restart()),
    vscode.workspace.onDidSaveTextDocument(() => showStatus()), // it may have been the settings of the project
    vscode.window.onDidChangeActiveTextEditor(() => showStatus()),
  );
  await restart();
  const chosen = await onChosen(() => void (configured() ? undefined : restart()));
  if (chosen) {
    context.subscriptions.push(chosen);
  }
}

export async function deactivate(): Promise<void> {
  await turn;
  await client?.stop();
}

// --- the server ------------------------------------------------------------------------------------------------------

/** Stop the server and start it again; `asked`: a person wants t4lint installed where it is missing. */
function restart(asked = false): Promise<void> {
  turn = turn
    .then(stop)
    .then(() => start(asked))
    .catch((error) => {
      showStatus("not running");
      log.error(String(error));
    });
  return turn;
}

async function stop(): Promise<void> {
  await vscode.commands.executeCommand("setContext", "t4lint.running", false);
  const old = client;
  client = undefined;
  await old?.dispose().catch((error) => log.warn(String(error))); // one that never started cannot be stopped
}

async function start(asked: boolean): Promise<void> {
  if (!settings().get<boolean>("enable", true)) {
    status.hide();
    return;
  }
  found = await findInterpreter();
  if (found === undefined) {
    showStatus("no Python found", "t4lint.chooseInterpreter");
    void sayNoPython();
    return;
  }
  if (found.version === null) {
    showStatus("not installed", "t4lint.install");
    log.warn(`t4lint is not installed in ${found.python}.`);
    void offerInstall(found, memory, asked).then((installed) => (installed ? restart() : undefined));
    return;
  }
  log.info(`t4lint ${found.version} in ${found.python}`);
  const made = new LanguageClient("t4lint", "t4lint", server(found.python), clientOptions());
  client = made;
  await made.start();
  await vscode.commands.executeCommand("setContext", "t4lint.running", true);
  showStatus();
}

async function sayNoPython(): Promise<void> {
  const name = configured();
  const text = name
    ? `t4lint cannot start ${name}, which the setting t4lint.interpreter names.`
    : "t4lint found no Python; the setting t4lint.interpreter can name one.";
  log.warn(text);
  if (await vscode.window.showWarningMessage(text, "Open the setting")) {
    await openSetting();
  }
}

function openSetting(): Thenable<unknown> {
  return vscode.commands.executeCommand("workbench.action.openSettings", "t4lint.interpreter");
}

function server(python: string): ServerOptions {
  // Started outside the workspace: Python puts the working directory before its own packages.
  return { command: python, args: ["-m", "t4lint", "server"], options: { cwd: os.tmpdir() } };
}

function clientOptions(): LanguageClientOptions {
  const files = LANGUAGES.flatMap((language) => [
    { scheme: "file", language },
    { scheme: "untitled", language },
  ]);
  return {
    documentSelector: [...files, { scheme: "vscode-notebook-cell", language: "python" }],
    initializationOptions: { ...settings(), showPage: true },
    outputChannel: log,
    diagnosticPullOptions: { onChange: true, onSave: true, onTabs: false },
    middleware: { provideDiagnostics: kept },
  };
}

function settings(): vscode.WorkspaceConfiguration {
  return vscode.workspace.getConfiguration("t4lint");
}

/** The client takes a question that it has cancelled itself, for a newer text, for an answer without findings. */
const kept: NonNullable<Middleware["provideDiagnostics"]> = async (document, previous, token, next) => {
  const report = await next(document, previous, token);
  return token.isCancellationRequested && previous !== undefined
    ? { kind: vsdiag.DocumentDiagnosticReportKind.unChanged, resultId: previous }
    : report;
};

function showStatus(trouble?: string, command = "t4lint.showLog"): void {
  if (trouble !== undefined) {
    status.text = `$(warning) t4lint: ${trouble}`;
    status.tooltip = command === "t4lint.showLog" ? "Show the log of t4lint" : undefined;
    status.command = command;
    status.show();
  } else if (client !== undefined) {
    void targetHere().then((target) => {
      status.text = `$(chip) ${target}`;
      status.tooltip = "t4lint checks for this GPU or instance. Select another one";
      status.command = "t4lint.selectTarget";
      status.show();
    });
  }
}

/** What the document in front is checked for: the editor's wish, or what the settings of its project say. */
async function targetHere(): Promise<string> {
  const uri = vscode.window.activeTextEditor?.document.uri ?? vscode.workspace.workspaceFolders?.[0]?.uri;
  const wish = settings().get<string>("target", "");
  return wish || (uri && (await ask<string>("t4lint.server.target", uri.toString()).catch(() => undefined))) || "t4";
}

async function ask<T>(command: string, ...args: unknown[]): Promise<T | undefined> {
  return client?.sendRequest<T>("workspace/executeCommand", { command, arguments: args });
}

// --- commands --------------------------------------------------------------------------------------------------------

async function showPage(rule: string): Promise<void> {
  const text = await ask<string>("t4lint.server.explain", rule);
  if (text) {
    await pages.show(`${rule}.md`, text);
  }
}

async function explainRule(): Promise<void> {
  const rules = (await ask<{ name: string; summary: string }[]>("t4lint.server.rules")) ?? [];
  const items = rules.map((rule) => ({ label: rule.name, description: rule.summary }));
  const chosen = await vscode.window.showQuickPick(items, { placeHolder: "A rule", matchOnDescription: true });
  if (chosen) {
    await showPage(chosen.label);
  }
}

async function selectTarget(): Promise<void> {
  const targets = (await ask<{ name: string; description: string }[]>("t4lint.server.targets")) ?? [];
  const items = [
    { label: PROJECT, description: "t4, where they say nothing", name: "" },
    ...targets.map((target) => ({ label: target.name, description: target.description, name: target.name })),
  ];
  const chosen = await vscode.window.showQuickPick(items, {
    placeHolder: "What the training script is meant to run on",
    matchOnDescription: true,
  });
  if (chosen) {
    const level = vscode.workspace.workspaceFolders
      ? vscode.ConfigurationTarget.Workspace
      : vscode.ConfigurationTarget.Global;
    await settings().update("target", chosen.name || undefined, level);
  }
}

async function checkWorkspace(): Promise<void> {
  const done = await ask<{ files: number; findings: number }>("t4lint.server.checkWorkspace");
  if (done) {
    const text = `t4lint looked at ${done.files} files: ${done.findings} findings.`;
    const answer = await vscode.window.showInformationMessage(text, ...(done.findings ? ["Show"] : []));
    if (answer) {
      await vscode.commands.executeCommand("workbench.actions.view.problems");
    }
  }
}

async function fixAll(): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (editor) {
    await vscode.commands.executeCommand("editor.action.codeAction", {
      kind: "source.fixAll.t4lint",
      apply: "first",
    });
  }
}

/** The script in front, saved: a file, or the notebook of the cell. */
async function script(): Promise<{ file: string; folder: string } | undefined> {
  const notebook = vscode.window.activeNotebookEditor?.notebook;
  const document = vscode.window.activeTextEditor?.document;
  const uri = notebook?.uri ?? document?.uri;
  if (uri?.scheme !== "file") {
    void vscode.window.showInformationMessage("Save the script first: t4lint runs what is on disk.");
    return undefined;
  }
  await (notebook ?? document)?.save();
  const folder = vscode.workspace.getWorkspaceFolder(uri)?.uri.fsPath ?? path.dirname(uri.fsPath);
  return { file: uri.fsPath, folder };
}

async function fit(): Promise<void> {
  const here = await script();
  if (!here || !found) {
    return;
  }
  const target = settings().get<string>("target", "");
  const args = ["fit", path.relative(here.folder, here.file), ...(target ? ["--target", target] : [])];
  const ended = await working("t4lint fit", (token, said) =>
    t4lint(found?.python ?? "python3", args, here.folder, token, said),
  );
  await pages.show("fit.txt", ended.stdout || ended.stderr);
}

/** Run the script and show the verdicts; `device` in the place of that of the settings. */
async function verify(device = settings().get<string>("verify.device", "auto")): Promise<void> {
  const here = await script();
  if (!here || !found || !vscode.workspace.isTrusted) {
    return;
  }
  const name = path.relative(here.folder, here.file);
  const given = settings().get<string[]>("verify.arguments", []);
  const command = name.endsWith(".ipynb") ? [name] : ["--", found.python, name, ...given];
  const on = device === "auto" ? [] : ["--device", device];
  const shown = ["t4lint verify", ...on, ...command].join(" ").replace(found.python, "python");
  const run = "Run it";
  const detail = `${shown}\n\nIt runs for a few steps in a copy of the folder, without network and without your tokens.`;
  if ((await vscode.window.showWarningMessage("Verify runs your script.", { modal: true, detail }, run)) !== run) {
    return;
  }
  const target = settings().get<string>("target", "");
  const flags = [...on, "--output-format", "json", ...(target ? ["--target", target] : [])];
  const ended = await working("t4lint verify", (token, said) =>
    t4lint(found?.python ?? "python3", ["verify", ...flags, ...command], here.folder, token, said),
  );
  showVerdicts(ended.stdout, ended.stderr, here.folder, shown);
}

function showVerdicts(stdout: string, stderr: string, folder: string, command: string): void {
  let report: { findings: Finding[]; errors: { message: string }[] };
  try {
    report = JSON.parse(stdout);
  } catch {
    log.error(stderr);
    void vscode.window
      .showErrorMessage(`t4lint verify: ${stderr.trim().split("\n").pop() || "no report"}`, "Show the log")
      .then((answer) => (answer ? log.show() : undefined));
    return;
  }
  if (report.errors.length) {
    void vscode.window.showWarningMessage(`t4lint verify: ${report.errors[0].message}`);
  }
  verdicts.show(report.findings, folder, command);
}

function working<T>(
  title: string,
  run: (token: vscode.CancellationToken, said: (line: string) => void) => Promise<T>,
): Thenable<T> {
  const options = { location: vscode.ProgressLocation.Notification, title, cancellable: true };
  return vscode.window.withProgress(options, (progress, token) => run(token, (message) => progress.report({ message })));
}
