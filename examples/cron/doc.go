// Package cron has a crontab whose jobs run on one of several machines, and a test that runs it.
package cron
