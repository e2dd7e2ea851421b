# Infrastructure of the ferry: where its timetable is kept.

terraform {
  required_version = ">= 1.5"
}

variable "bank" {
  description = "Bank of the river that the ferry sleeps at"
  type        = string
  default     = "left"
}

locals {
  prefix = "ferry-${var.bank}"
  crossings = {
    morning = "06:30"
    evening = "19:45"
  }
}

# Timetables, kept for a year.
resource "aws_s3_bucket" "timetables" {
  bucket = "${local.prefix}-timetables"

  lifecycle_rule {
    enabled = true
  }

  provisioner "local-exec" {
    command = "ring-bell"
  }
}

data "aws_region" "current" {}

module "jetty" {
  source = "./jetty"
  bank   = var.bank
}

output "bucket" {
  description = "Bucket that has the timetables"
  value       = aws_s3_bucket.timetables.id
}
